// The module of all smaller figures: a page names the one that it shows.

import { renderAblation } from "./ablation.js";
import { DESIGNS } from "./designs.js";
import { renderSmall } from "./small.js";

export default {
  render(page) {
    const name = page.model.get("figure");
    return name === "ablation" ? renderAblation(page) : renderSmall(DESIGNS[name], page);
  },
};
