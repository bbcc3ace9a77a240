// What the page's worker runs.

import { readSafetensors } from "../engine/checkpoint.js";
import { Trainer } from "./trainer.js";

// The page asks, the worker answers; between two messages it does nothing, so that a pause is a message not sent.
function listenToPage(scope) {
  let trainer = null;
  const report = (found, look) => ({ t: trainer.t, losses: [], marks: [], ...found, trouble: trainer.trouble, look: trainer.look(look) });
  const begun = (look) => report({ marks: [trainer.mark()], first: trainer.filmRow() }, look);
  const answers = {
    start({ run, look }) {
      trainer = new Trainer(run);
      return begun(look);
    },
    work({ count, look }) {
      const start = performance.now();
      const found = trainer.work(count);
      return { ...report(found, look), ms: performance.now() - start };
    },
    look: ({ look }) => report({}, look),
    save: ({ notes }) => ({ file: trainer.save(notes) }),
    load({ bytes, look }) {
      trainer.load(bytes);
      return begun(look);
    },
    notes: ({ bytes }) => ({ notes: readSafetensors(bytes).notes }),
  };
  scope.onmessage = ({ data }) => {
    try {
      scope.postMessage({ kind: data.kind, ...answers[data.kind](data) });
    } catch (error) {
      scope.postMessage({ kind: data.kind, error: error.message });
    }
  };
}

listenToPage(self);
