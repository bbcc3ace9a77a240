// The smaller figures by their names, without the frame that stands around each.

import { CHUNKS } from "./chunks.js";
import { COST } from "./cost.js";
import { DISTANCE, EIGENVALUES, MEMORY, STEP } from "./fading.js";
import { CAPACITY, GROWTH, READOUT_VIEW } from "./ranges.js";
import { COMBINATION, EMPTY_ROW, FACTS_VIEW } from "./rows.js";
import { SWING } from "./swing.js";
import { ERASING, STRING, TURNING } from "./turning.js";
import { VARIANCE } from "./variance.js";

export const DESIGNS = {
  variance: VARIANCE, chunks: CHUNKS, cost: COST, turning: TURNING, string: STRING, erasing: ERASING, memory: MEMORY, distance: DISTANCE,
  eigenvalues: EIGENVALUES, step: STEP, facts: FACTS_VIEW, "empty-row": EMPTY_ROW, combination: COMBINATION, growth: GROWTH,
  readout: READOUT_VIEW, capacity: CAPACITY, swing: SWING,
};
