// Starting, pausing and ending runs. Training goes on by messages: each asks for some steps, and the next one is sent
// when the page has drawn the answer.

import { Lane, pageWorker } from "./lane.js";
import { decodeTraining, encodeTraining, mixerOptions } from "./settings.js";
import TRAIN from "coefdyn:offered";
import WORKER from "coefdyn:worker";

const RUN_KEYS = ["task", "left", "right", "rate", "seed", "positions"]; // what makes another run of it

export function bindRuns(app) {
  let timer = 0;
  let beat = 0;
  const looking = () => ({ layer: app.settings.layer, head: app.settings.head, sequence: app.settings.sequence });
  const runOf = (design) => ({ task: app.contests[app.settings.task].config, design: mixerOptions(design), size: TRAIN.size,
    positions: app.settings.positions, seed: app.settings.seed, rate: app.settings.rate, sequence: app.settings.sequence });
  app.ended = () => app.lanes.length > 0 && app.lanes.every(({ trouble }) => trouble);
  app.speedOf = (lane) => (lane.pacing && lane.pacing.length > 1
    ? (1000 * (lane.pacing.at(-1)[1] - lane.pacing[0][1])) / (lane.pacing.at(-1)[0] - lane.pacing[0][0]) : 0);

  app.begin = () => {
    app.lanes.forEach((lane) => lane.end());
    app.wish = false;
    app.onBegin.forEach((call) => call());
    app.runs = [app.settings.left, app.settings.right].filter(Boolean).map(runOf);
    app.lanes = app.runs.map((run) => new Lane(pageWorker(WORKER), run, looking(), hear));
    app.schedule();
  };

  function hear(lane, data) {
    if (!app.lanes.includes(lane)) return;
    if (data.error && data.kind !== "load" && data.kind !== "notes" && data.kind !== "save") {
      app.pause(`The run ended: ${data.error}. Reset starts it anew.`);
    }
    if (data.kind === "work" && !data.error) {
      app.pace.took(data.losses.length, data.ms);
      lane.pacing = [...(lane.pacing || []), [performance.now(), lane.t]].slice(-30);
    }
    if (lane.trouble && app.lanes.every((one) => one.trouble || one === lane)) app.pause("Stopped: a number left the range of float32. Below it says why.");
    app.schedule();
    if (app.running) go();
    else if (app.wish) app.stepOnce();
  }

  // The next message, once every design has answered the last one: they stay at the same step.
  function go() {
    if (timer || !app.running || app.lanes.some((lane) => lane.busy)) return;
    const { count, rest } = app.pace.next(TRAIN.speeds_per_second[app.settings.speed]);
    timer = setTimeout(() => {
      timer = 0;
      if (app.running) send(count);
    }, rest);
  }

  function send(count) {
    app.lanes.filter(({ trouble }) => !trouble).forEach((lane) => lane.ask("work", { count, look: looking() }));
  }

  const watch = (now) => {
    app.pace.frame(now);
    beat = app.running ? requestAnimationFrame(watch) : 0;
  };

  app.train = () => {
    if (app.ended()) return;
    app.running = true;
    app.pace.times = [];
    app.lanes.forEach((lane) => (lane.pacing = []));
    app.tell("Training in this page. Pause or hide the tab, and it waits.");
    if (!beat) beat = requestAnimationFrame(watch);
    app.schedule();
    go();
  };

  app.pause = (words) => {
    app.running = false;
    clearTimeout(timer);
    timer = 0;
    if (words) app.tell(words);
    app.schedule();
  };

  // Asked for while a run is still being set up, the step is taken as soon as it is.
  app.stepOnce = () => {
    if (app.running) return;
    app.wish = app.lanes.some((lane) => lane.busy);
    if (app.wish) return;
    app.tell("One step.");
    send(1);
  };

  app.reset = (words) => {
    app.pause(words);
    app.begin();
  };

  app.adopt = (settings) => {
    const other = RUN_KEYS.some((key) => JSON.stringify(settings[key]) !== JSON.stringify(app.settings[key]));
    app.settings = settings;
    if (other) app.reset("Another run: press Train.");
    else if (!app.running && app.lanes.every((lane) => !lane.busy)) app.lanes.forEach((lane) => lane.ask("look", { look: looking() }));
    app.schedule();
  };

  app.change = (patch) => {
    app.adopt({ ...app.settings, ...patch });
    app.widget.set("settings", app.settings);
    app.widget.save_changes();
    if (app.writeAddress) app.writeAddress();
  };
}

// A hidden tab waits, and goes on when it is seen again.
export function listenToVisibility(app) {
  const change = () => {
    if (document.hidden && app.running) {
      app.hidden = true;
      app.pause("The tab is hidden, so training waits.");
    } else if (!document.hidden && app.hidden) {
      app.hidden = false;
      app.train();
    }
  };
  document.addEventListener("visibilitychange", change);
  app.cleanups.push(() => document.removeEventListener("visibilitychange", change));
}

// The settings in the page's address, as the explorer has them; only in a page of the book.
export function listenToTrainAddress(app, name) {
  if (app.widget.get("_in_page") !== true) return;
  const prefix = `#cd-${name}?`;
  const read = () => {
    const { hash } = window.location;
    if (!hash.startsWith(prefix)) return false;
    const { settings, notes } = decodeTraining(hash.slice(prefix.length), app.home);
    if (app.lanes.length) app.adopt(settings);
    else app.settings = settings;
    app.greeting = notes.length ? `The address was not all readable: ${notes.slice(0, 3).join("; ")}.` : "";
    if (notes.length) app.tell(app.greeting);
    return true;
  };
  const go = () => {
    if (read()) app.root.scrollIntoView({ block: "start" });
  };
  if (read()) [0, 900].forEach((wait) => setTimeout(() => app.root.scrollIntoView({ block: "start" }), wait));
  window.addEventListener("hashchange", go);
  app.cleanups.push(() => window.removeEventListener("hashchange", go));
  app.writeAddress = () => {
    try {
      window.history.replaceState(window.history.state, "", prefix + encodeTraining(app.settings, app.home));
    } catch {
      // A page without a history still trains.
    }
  };
}
