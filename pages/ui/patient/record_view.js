// The record as a list that scrolls: only the rows on the screen are in the document.
// Text of the record is untrusted: it enters the page as text nodes alone.

const PARTS = new Map(); // key -> parsed part of the data; the latest ones
const MOST_PARTS = 8;
const VIEWERS = new WeakMap();
const BLOCK = 1500; // characters of a note in one row, about
const OVERSCAN = 500; // pixels drawn above and below the screen
const RESEND_MS = 10000;

// Marks in the order they were made, until the server has acknowledged their ids. They outlive a
// viewer: what was not acknowledged is sent again, also for a question that is left meanwhile.
const QUEUE = (globalThis[Symbol.for("midchart.marks")] ??= newQueue());

function newQueue() {
  const queue = { page: [...crypto.getRandomValues(new Uint32Array(4))].join("-"), last: 0, sent: 0, waiting: [] };
  addEventListener("beforeunload", (event) => queue.waiting.length && event.preventDefault());
  return queue;
}

export default function ({ data, parentElement, setStateValue }) {
  let viewer = VIEWERS.get(parentElement);
  if (!viewer) VIEWERS.set(parentElement, (viewer = new Viewer(parentElement)));
  viewer.send = setStateValue;
  viewer.update(data);
  return () => {
    viewer.close();
    VIEWERS.delete(parentElement);
  };
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made[name] = value;
    else if (value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const number = (n) => n.toLocaleString("en-US");
const plural = (n, one, several) => `${number(n)} ${n === 1 ? one : several}`;

// Lower case of the same length, so that places stay valid.
function lowered(text) {
  const low = text.toLowerCase();
  if (low.length === text.length) return low;
  return text.replace(/[^]/g, (c) => (c.toLowerCase().length === 1 ? c.toLowerCase() : c));
}

// The words or quoted phrases of a query.
function needles(query) {
  const parts = query.match(/"[^"]+"|[^\s"]+/g) ?? [];
  return [...new Set(parts.map((part) => lowered(part.replaceAll('"', "").trim())))].filter(Boolean);
}

// First index in [0, length) for which `above(index)` holds, else length.
function bisect(length, above) {
  let low = 0;
  while (low < length) {
    const middle = (low + length) >> 1;
    if (above(middle)) length = middle;
    else low = middle + 1;
  }
  return low;
}

class Viewer {
  constructor(root) {
    this.events = []; // numbers of the entries that the filters show
    this.rows = { event: [], block: [] };
    this.tops = new Float64Array(1);
    this.drawn = new Map(); // row -> its element
    this.cursor = null; // [event, sentence]
    this.hits = []; // [event, sentence], in order
    this.terms = [];
    this.groups = new Set();
    this.build(root);
  }

  build(root) {
    const button = (text, label, onclick, more = {}) =>
      element("button", { type: "button", "aria-label": label, title: label, onclick, ...more }, text);
    this.query = element("input", {
      type: "search", "aria-label": "Search in the record", maxlength: 200, spellcheck: "false",
      placeholder: 'Search: words of a sentence, or "a phrase"',
      oninput: () => this.searchSoon(), onkeydown: (event) => this.queryKey(event),
    });
    this.count = element("output", { class: "count", role: "status" });
    this.previousHit = button("↑", "Previous hit (Shift+Enter)", () => this.stepHit(-1));
    this.nextHit = button("↓", "Next hit (Enter)", () => this.stepHit(1));
    this.onlyHits = button("Hits only", "Show only the entries with hits", () => this.toggle(this.onlyHits), {
      "aria-pressed": "false",
    });
    this.chips = element("div", { class: "chips", role: "group", "aria-label": "Types of entry" });
    // A date field of the browser would be in the browser's own order of day and month.
    const day = (label) => element("input", {
      type: "text", class: "day", maxlength: 10, pattern: "\\d{4}(-\\d{2}){0,2}", "aria-label": label,
      title: `${label}: a year, month or day as YYYY-MM-DD`, oninput: () => this.filter(),
    });
    this.from = day("From this date");
    this.to = day("To this date");
    this.reset = button("Reset", "Show all entries", () => this.resetFilters());
    this.shown = element("span", { class: "count" });
    this.where = element("div", { class: "where" });
    this.sizer = element("div", { class: "sizer" });
    this.scroll = element("div", {
      class: "scroll", role: "feed", tabindex: 0,
      onscroll: () => this.drawSoon(), onkeydown: (event) => this.key(event), onclick: (event) => this.click(event),
    }, this.sizer);
    this.evidenceButtons = element("span", { class: "steps" },
      button("↑ Previous evidence", "Previous evidence", () => this.stepEvidence(-1)),
      button("↓ Next evidence", "Next evidence", () => this.stepEvidence(1)));
    this.status = element("div", { class: "status", role: "status" });
    this.section = element("section", { class: "mc viewer", "aria-label": "Record" },
      element("div", { class: "bar", role: "search" }, this.query, this.previousHit, this.nextHit, this.count,
        this.onlyHits),
      element("div", { class: "bar" }, this.where, this.evidenceButtons),
      this.scroll,
      element("div", { class: "bar", role: "group", "aria-label": "Filters" }, this.chips,
        element("span", { class: "days" }, this.from, "–", this.to), this.reset, this.shown),
      this.status);
    root.append(this.section);
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.scroll);
  }

  close() {
    this.observer.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.again);
    cancelAnimationFrame(this.frame);
    this.section.remove();
  }

  // Data from the server. A part is sent once and known by its key from then on.

  part([key, text]) {
    if (text !== null) {
      PARTS.delete(key);
      PARTS.set(key, JSON.parse(text));
      if (PARTS.size > MOST_PARTS) PARTS.delete(PARTS.keys().next().value);
    }
    return PARTS.get(key);
  }

  update(data) {
    const record = this.part(data.record);
    const marks = this.part(data.marks);
    if (!record || !marks) {
      this.send("missing", { page: QUEUE.page, sent: ++QUEUE.sent, keys: [data.record[0], data.marks[0]] });
      return;
    }
    const first = !this.record;
    if (this.marks !== marks) this.takeMarks(marks);
    this.takeMarking(data.marking, data.saved[QUEUE.page] ?? 0);
    if (first || !QUEUE.waiting.length) this.sendMarks();
    if (this.record !== record) this.take(record);
    if (this.jump !== data.jump) {
      this.jump = data.jump;
      this.open = data.open;
      this.goTo(data.open, -1);
      this.redraw();
      if (data.at !== null) {
        this.cursor = [data.open, this.sentenceAt(data.open, data.at)];
        this.showCursor();
      }
    } else this.redraw();
    // The page stays where it is when another question is chosen.
    if (!first && this.timesOpened !== data.opened) {
      this.section.scrollIntoView({ block: "nearest", behavior: "smooth" });
      if (data.at !== null) this.moveTo(data.open, this.sentenceAt(data.open, data.at));
    }
    this.timesOpened = data.opened;
  }

  take(record) {
    this.record = record;
    this.low = null;
    this.blocks = new Map();
    this.cursor = null;
    this.groups.clear();
    this.query.value = this.from.value = this.to.value = "";
    const sizes = new Map();
    for (let e = 0; e < record.text.length; e++) {
      sizes.set(record.group[e], (sizes.get(record.group[e]) ?? 0) + 1);
    }
    this.chips.replaceChildren(...[...sizes.keys()].sort((a, b) => a - b).map((group) =>
      element("button", {
        type: "button", "aria-pressed": "false", "data-group": group,
        onclick: (event) => this.toggleGroup(group, event.currentTarget),
      }, `${record.groups[group]} ${number(sizes.get(group))}`)));
    const dated = record.time.filter(Boolean);
    this.from.parentElement.hidden = !dated.length;
    if (dated.length) {
      const days = dated.map((time) => time.slice(0, 10)).sort();
      [this.from.placeholder, this.to.placeholder] = [days[0], days.at(-1)];
    }
    this.search();
  }

  takeMarks(marks) {
    this.marks = marks;
    this.marksOf = new Map();
    for (let i = 0; i < marks.marks.length; i += 5) {
      const [event, start, end, label, extra] = marks.marks.slice(i, i + 5);
      const mark = { start, end, ...marks.labels[label], extra: marks.extras[extra] };
      if (!this.marksOf.has(event)) this.marksOf.set(event, []);
      this.marksOf.get(event).push(mark);
    }
    this.exactOf = new Map();
    for (let i = 0; i < marks.exact.length; i += 3) {
      const [event, start, end] = marks.exact.slice(i, i + 3);
      if (!this.exactOf.has(event)) this.exactOf.set(event, []);
      this.exactOf.get(event).push([start, end]);
    }
    this.evidenceButtons.hidden = !marks.stops.length;
    const noun = marks.exact.length ? "evidence" : "kept";
    [...this.evidenceButtons.children].forEach((button, i) => {
      button.textContent = `${i ? "↓ Next" : "↑ Previous"} ${noun}`;
      button.title = `${i ? "Next" : "Previous"} ${noun}`;
      button.setAttribute("aria-label", button.title);
    });
  }

  takeMarking(marking, saved) {
    QUEUE.waiting = QUEUE.waiting.filter(({ id }) => id > saved);
    this.marking = marking;
    this.marked = new Set(marking?.marked.map(([event, sentence]) => `${event}:${sentence}`));
    for (const { context, event, sentence, on } of QUEUE.waiting) {
      if (context === marking?.context) this.setMarked(event, sentence, on);
    }
    this.report();
  }

  report() {
    const marking = this.marking;
    let words = "";
    if (marking) {
      const n = this.marked.size;
      words = `${plural(n, "sentence", "sentences")} marked as evidence`;
      words += QUEUE.waiting.length ? ", saving …" : n ? ", saved." : ".";
      words += " Click a sentence to mark it, or reach it by Tab and press space.";
      if (marking.problem) words = marking.problem;
    }
    this.status.textContent = words;
    this.status.dataset.saved = QUEUE.waiting.length ? "no" : "yes";
  }

  isMarked(event, sentence) {
    return this.marked.has(`${event}:${sentence}`);
  }

  setMarked(event, sentence, on) {
    if (on) this.marked.add(`${event}:${sentence}`);
    else this.marked.delete(`${event}:${sentence}`);
  }

  // Sentences: [start, end] in the text of an event; without cuts the event is one sentence.

  sentences(event) {
    const cuts = this.record.cuts[event];
    return cuts ? cuts.length / 2 : 1;
  }

  span(event, sentence) {
    const cuts = this.record.cuts[event];
    return cuts ? [cuts[2 * sentence], cuts[2 * sentence + 1]] : [0, this.record.text[event].length];
  }

  // Filters and search

  toggle(button) {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "true" ? "false" : "true");
    this.filter();
  }

  toggleGroup(group, button) {
    if (!this.groups.delete(group)) this.groups.add(group);
    this.toggle(button);
  }

  resetFilters() {
    this.groups.clear();
    for (const chip of [...this.chips.children, this.onlyHits]) chip.setAttribute("aria-pressed", "false");
    this.from.value = this.to.value = "";
    this.filter();
  }

  isShown(event) {
    const { record } = this;
    const time = record.time[event].slice(0, 10);
    if (this.groups.size && !this.groups.has(record.group[event])) return false;
    const [from, to] = [this.from, this.to].map((input) => (input.validity.valid ? input.value : ""));
    if (from && !(time && time >= from)) return false;
    return !(to && !(time && time.slice(0, to.length) <= to));
  }

  searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), 120);
  }

  search() {
    clearTimeout(this.timer);
    this.terms = needles(this.query.value);
    this.found = [];
    if (this.terms.length) {
      this.low ??= this.record.text.map(lowered);
      this.low.forEach((text, event) => {
        if (!this.terms.every((term) => text.includes(term))) return;
        for (let i = 0; i < this.sentences(event); i++) {
          const [start, end] = this.span(event, i);
          const sentence = text.slice(start, end);
          if (this.terms.every((term) => sentence.includes(term))) this.found.push([event, i]);
        }
      });
    } else this.onlyHits.setAttribute("aria-pressed", "false");
    this.filter();
    if (this.hits.length) this.stepHit(0);
  }

  filter() {
    const anchor = this.anchor();
    const all = this.record.text.length;
    const shown = new Uint8Array(all);
    for (let e = 0; e < all; e++) shown[e] = this.isShown(e);
    this.hits = this.found.filter(([event]) => shown[event]);
    this.onlyHits.hidden = !this.terms.length;
    if (this.onlyHits.getAttribute("aria-pressed") === "true") {
      const holding = new Set(this.hits.map(([event]) => event));
      for (let e = 0; e < all; e++) shown[e] &&= holding.has(e);
    }
    this.events = [];
    for (let e = 0; e < all; e++) if (shown[e]) this.events.push(e);
    this.hitsOf = new Map();
    for (const [event, sentence] of this.hits) {
      if (!this.hitsOf.has(event)) this.hitsOf.set(event, new Set());
      this.hitsOf.get(event).add(sentence);
    }
    this.reset.hidden = this.events.length === all;
    this.shown.textContent = this.events.length === all ? plural(all, "entry", "entries")
      : `${number(this.events.length)} of ${plural(all, "entry", "entries")}`;
    this.countHits();
    this.layOut();
    if (anchor) this.goTo(anchor[0], -1, anchor[1]);
    this.redraw();
  }

  countHits() {
    const n = this.hits.length;
    this.previousHit.disabled = this.nextHit.disabled = !n;
    const at = this.cursor ? this.hits.findIndex(([e, i]) => e === this.cursor[0] && i === this.cursor[1]) : -1;
    this.count.textContent = !this.terms.length ? ""
      : n ? `${at >= 0 ? `${number(at + 1)} of ` : ""}${plural(n, "hit", "hits")} in ` +
        plural(this.hitsOf.size, "entry", "entries") : "No sentence holds these words";
  }

  stepHit(step) {
    const n = this.hits.length;
    if (!n) return;
    const [event, sentence] = this.cursor ?? [this.rows.event[this.rowAt(this.scroll.scrollTop)] ?? 0, -1];
    const later = bisect(n, (i) => this.hits[i][0] > event ||
      (this.hits[i][0] === event && this.hits[i][1] >= sentence + (step > 0 ? 1 : 0)));
    this.moveTo(...this.hits[(later + (step < 0 ? n - 1 : 0)) % n]);
    this.countHits();
  }

  queryKey(event) {
    if (event.key === "Enter") {
      const waiting = needles(this.query.value).join() !== this.terms.join();
      if (waiting) this.search();
      else this.stepHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      this.query.value = "";
      this.search();
      this.scroll.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  }

  stepEvidence(step) {
    const stops = this.marks.stops;
    if (!stops.length) return;
    const at = this.open ?? this.rows.event[this.rowAt(this.scroll.scrollTop)] ?? 0;
    const later = bisect(stops.length, (i) => (step > 0 ? stops[i] > at : stops[i] >= at));
    const stop = stops[(later + (step < 0 ? stops.length - 1 : 0)) % stops.length];
    this.open = stop;
    const exact = this.exactOf.get(stop)?.[0] ?? this.marksOf.get(stop)?.map((m) => [m.start, m.end])[0];
    if (this.rowOf(stop) < 0) this.resetFilters();
    this.goTo(stop, -1);
    this.redraw();
    this.moveTo(stop, exact ? this.sentenceAt(stop, exact[0]) : 0);
  }

  sentenceAt(event, place) {
    const n = this.sentences(event);
    return Math.min(bisect(n, (i) => this.span(event, i)[1] > place), Math.max(n - 1, 0));
  }

  // Rows: a note is cut into blocks between sentences, so that a long one is not drawn as a whole.

  blocksOf(event) {
    const text = this.record.text[event];
    if (text.length <= BLOCK) return [0];
    if (!this.blocks.has(event)) {
      const starts = [0];
      for (let i = 1; i < this.sentences(event); i++) {
        const [start] = this.span(event, i);
        const line = text.lastIndexOf("\n", start - 1) + 1;
        const cut = line >= this.span(event, i - 1)[1] ? line : start;
        if (cut - starts.at(-1) >= BLOCK) starts.push(cut);
      }
      this.blocks.set(event, starts);
    }
    return this.blocks.get(event);
  }

  layOut() {
    this.columns = Math.max(20, Math.floor((this.scroll.clientWidth - 40) / 7.4));
    const event = [];
    const block = [];
    const heights = [];
    for (const e of this.events) {
      const starts = this.blocksOf(e);
      starts.forEach((start, b) => {
        event.push(e);
        block.push(b);
        heights.push(this.estimate(e, b, start, starts[b + 1] ?? this.record.text[e].length));
      });
    }
    this.rows = { event, block };
    this.heights = Float64Array.from(heights);
    this.tops = new Float64Array(heights.length + 1);
    this.addUp(0);
    for (const drawn of this.drawn.values()) drawn.remove();
    this.drawn.clear();
    this.scroll.setAttribute("aria-label", `The record, ${plural(this.events.length, "entry", "entries")} in order`);
  }

  estimate(event, block, start, end) {
    const text = this.record.text[event];
    const line = 25;
    if (!this.record.note[event]) return line * Math.ceil((end - start) / (0.75 * this.columns) || 1) + 5;
    let lines = 0;
    for (let at = start; at < end; ) {
      let stop = text.indexOf("\n", at);
      if (stop < 0 || stop > end) stop = end;
      lines += Math.max(1, Math.ceil((stop - at) / this.columns));
      at = stop + 1;
    }
    return lines * line + (block ? 0 : 50);
  }

  addUp(from) {
    for (let r = from; r < this.heights.length; r++) this.tops[r + 1] = this.tops[r] + this.heights[r];
    this.sizer.style.height = `${this.tops[this.heights.length]}px`;
  }

  rowAt(top) {
    return Math.max(0, Math.min(bisect(this.heights?.length ?? 0, (r) => this.tops[r + 1] > top), this.rows.event.length - 1));
  }

  rowOf(event, place = 0) {
    const first = bisect(this.rows.event.length, (r) => this.rows.event[r] >= event);
    if (this.rows.event[first] !== event) return -1;
    return first + Math.max(0, bisect(this.blocksOf(event).length, (b) => this.blocksOf(event)[b] > place) - 1);
  }

  anchor() {
    if (!this.rows.event.length) return null;
    const row = this.rowAt(this.scroll.scrollTop);
    return [this.rows.event[row], this.scroll.scrollTop - this.tops[row]];
  }

  // Drawing

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  // Draws all again, where texts, marks, hits or sizes are others.
  redraw() {
    const focused = this.section.getRootNode().activeElement;
    const inside = this.sizer.contains(focused);
    // A sentence that was reached by Tab keeps the focus, though another one was marked last.
    const place = (inside && this.sentenceAround(focused)) || this.cursor;
    for (const drawn of this.drawn.values()) drawn.remove();
    this.drawn.clear();
    this.draw();
    if (inside) ((place && this.elementOf(...place)) ?? this.scroll).focus({ preventScroll: true });
  }

  draw() {
    if (!this.record) return;
    for (let pass = 0; pass < 6 && this.drawRows(); pass++);
    this.drawWhere();
  }

  // Draws the rows on the screen; true where their measured heights moved the others.
  drawRows() {
    const n = this.rows.event.length;
    const { scrollTop: top, clientHeight: height } = this.scroll;
    if (!height) return false;
    const first = this.rowAt(top - OVERSCAN);
    const last = n ? this.rowAt(top + height + OVERSCAN) : -1;
    const focused = this.section.getRootNode().activeElement;
    for (const [row, drawn] of this.drawn) {
      if (row >= first && row <= last) continue;
      if (drawn.contains(focused)) this.scroll.focus({ preventScroll: true });
      drawn.remove();
      this.drawn.delete(row);
    }
    const added = [];
    let after = null;
    for (let row = last; row >= first; row--) {
      let drawn = this.drawn.get(row);
      if (!drawn) {
        drawn = this.row(row);
        this.drawn.set(row, drawn);
        this.sizer.insertBefore(drawn, after);
        added.push(row);
      }
      after = drawn;
    }
    if (!n && !this.sizer.firstChild) this.sizer.append(element("p", { class: "none" }, "No entry passes these filters."));
    else if (n) this.sizer.querySelector(".none")?.remove();
    const held = this.rowAt(top);
    const offset = top - this.tops[held];
    let changed = n;
    for (const row of added) {
      const measured = this.drawn.get(row).offsetHeight;
      if (Math.abs(measured - this.heights[row]) > 0.5) {
        this.heights[row] = measured;
        changed = Math.min(changed, row);
      }
    }
    if (changed < n) this.addUp(changed);
    for (const [row, drawn] of this.drawn) drawn.style.transform = `translateY(${this.tops[row]}px)`;
    if (changed < held) this.scroll.scrollTop = this.tops[held] + offset;
    return changed < n;
  }

  resized() {
    if (!this.record || this.width === this.scroll.clientWidth) return;
    this.width = this.scroll.clientWidth;
    const anchor = this.anchor();
    this.layOut();
    // The sentence that the page opened on stays in sight until somebody scrolls away from it.
    if (this.cursor && this.scroll.scrollTop === this.openedAt) this.showCursor();
    else if (anchor) this.goTo(anchor[0], -1, anchor[1]);
    this.redraw();
  }

  showCursor() {
    this.show(...this.cursor);
    this.openedAt = this.scroll.scrollTop;
  }

  row(row) {
    const { record } = this;
    const event = this.rows.event[row];
    const block = this.rows.block[row];
    const starts = this.blocksOf(event);
    const text = record.text[event];
    const title = record.titles[record.title[event]];
    const [low, high] = [starts[block], starts[block + 1] ?? text.length];
    const frame = this.frameOf(event);
    const words = this.words(event, low, high, frame);
    const place = bisect(this.events.length, (i) => this.events[i] >= event) + 1;
    const named = `${title}, ${record.time[event] || "undated"}${block ? ", continued" : ""}`;
    const made = element("div", {
      class: `row${frame ? ` framed ${frame.style}` : ""}${event === this.open ? " open" : ""}`,
      role: "article", "aria-label": named, "aria-posinset": place, "aria-setsize": this.events.length, "data-event": event,
    });
    if (!record.note[event]) {
      made.classList.add("line");
      made.append(element("time", {}, record.time[event] || "undated"), element("span", { class: "kind" }, title), words);
      return made;
    }
    made.classList.add("note");
    if (!block) {
      const author = record.authors[record.author[event]];
      const size = (text.match(/\S+/g) ?? []).length;
      const facts = [record.time[event] || "undated", author && `by ${author}`, record.kinds[record.kind[event]],
        plural(size, "word", "words"), this.placeOf(event)].filter(Boolean);
      made.append(element("div", { class: "head", role: "heading", "aria-level": 2 },
        element("b", {}, title), element("span", {}, ` · ${facts.join(" · ")}`)));
    }
    if (frame && !block) made.append(this.tag(frame));
    made.append(words);
    return made;
  }

  placeOf(event) {
    const n = this.record.text.length;
    return `entry ${number(event + 1)} of ${number(n)}, at ${((100 * event) / Math.max(n - 1, 1)).toFixed(1)} %`;
  }

  // The mark over several sentences (a note kept as one unit) frames its rows.
  frameOf(event) {
    const marks = this.marksOf.get(event) ?? [];
    const wide = marks.filter((mark) => this.sentenceAt(event, mark.end - 1) > this.sentenceAt(event, mark.start));
    return wide.sort((a, b) => b.strength - a.strength)[0] ?? null;
  }

  tag(mark) {
    const made = element("span", { class: "mc-tag" }, mark.label);
    if (mark.extra) made.append(" ", element("small", {}, mark.extra));
    return made;
  }

  // Characters [low, high) of an event: sentences, headings, marks, exact evidence and hits, nested.
  words(event, low, high, frame) {
    const text = this.record.text[event];
    const marks = (this.marksOf.get(event) ?? []).filter((m) => m !== frame && m.start < high && m.end > low);
    const exact = (this.exactOf.get(event) ?? []).filter(([start, end]) => start < high && end > low);
    const headings = this.record.headings[event] ?? [];
    const inside = (list, at) => list.find(([start, end]) => start <= at && at < end) ?? null;
    const edges = new Set([low, high]);
    const cut = (...places) => places.forEach((place) => place > low && place < high && edges.add(place));
    const sentences = [];
    for (let i = this.sentenceAt(event, low); i < this.sentences(event); i++) {
      const [start, end] = this.span(event, i);
      if (start >= high) break;
      sentences.push([start, end, i]);
      cut(start, end);
    }
    const found = [];
    for (const [start, end, i] of sentences) {
      if (!this.hitsOf.get(event)?.has(i)) continue;
      for (const term of this.terms) {
        for (let at = this.low[event].indexOf(term, start); at >= 0 && at + term.length <= end;
          at = this.low[event].indexOf(term, at + 1)) {
          found.push([at, at + term.length]);
        }
      }
    }
    for (const list of [exact, headings, found]) list.forEach((item) => cut(...item));
    marks.forEach((mark) => cut(mark.start, mark.end));
    const made = element("div", { class: "words" });
    let path = [];
    let nodes = [made];
    const cells = [...edges].sort((a, b) => a - b);
    for (let c = 0; c + 1 < cells.length; c++) {
      const [at, end] = [cells[c], cells[c + 1]];
      const heading = inside(headings, at);
      if (heading && (at < heading[2] || at >= heading[3])) continue; // the markup itself
      const mark = marks.filter((m) => m.start <= at && m.end >= end).sort((a, b) => b.strength - a.strength)[0] ?? null;
      const levels = [inside(sentences, at), heading, mark, inside(exact, at), inside(found, at) && this.terms];
      let same = 0;
      while (same < path.length && path[same] === levels[same]) same++;
      nodes.length = same + 1;
      for (let level = same; level < levels.length; level++) {
        const opened = levels[level] ? this.opened(level, levels[level], event, at) : null;
        if (opened) nodes[level].append(opened);
        nodes[level + 1] = opened ?? nodes[level];
      }
      path = levels;
      nodes.at(-1).append(end === high && c + 2 === cells.length ? text.slice(at, end).replace(/\n$/, "") : text.slice(at, end));
    }
    return made;
  }

  // The element of one level of the nesting in words(): sentence, heading, mark, exact evidence, hit.
  opened(level, item, event, at) {
    if (level === 1) return element("b", { class: "mc-heading", role: "heading", "aria-level": 3 });
    if (level === 2) {
      const mark = element("mark", { class: item.style });
      if (item.start === at || this.record.headings[event]) mark.append(this.tag(item));
      return mark;
    }
    if (level === 3) return element("u");
    if (level === 4) return element("span", { class: "hit" });
    const [start, , i] = item;
    const current = this.cursor && this.cursor[0] === event && this.cursor[1] === i;
    const sentence = element("span", { class: "sentence", "data-sentence": i, tabindex: this.marking ? "0" : "-1" });
    if (current) sentence.classList.add("current");
    if (this.marking) {
      const marked = this.isMarked(event, i);
      sentence.setAttribute("role", "checkbox");
      sentence.setAttribute("aria-checked", marked);
      if (marked && start === at) sentence.append(element("span", { class: "mc-tag own" }, "✓ your evidence"));
    }
    return sentence;
  }

  drawWhere() {
    const n = this.rows.event.length;
    const row = this.rowAt(this.scroll.scrollTop + 4);
    const event = this.rows.event[row];
    if (n) {
      const percent = (100 * event) / Math.max(this.record.text.length - 1, 1);
      document.dispatchEvent(new CustomEvent("midchart-place", { detail: { percent, time: this.record.time[event] } }));
    }
    this.where.textContent = n ? [this.record.time[event] || "undated", this.record.titles[this.record.title[event]],
      this.placeOf(event)].join(" · ") : "";
  }

  // Moving

  goTo(event, sentence, offset = 0) {
    let row = this.rowOf(event, sentence < 0 ? 0 : this.span(event, sentence)[0]);
    if (row < 0 && offset === 0 && sentence < 0) row = bisect(this.rows.event.length, (r) => this.rows.event[r] >= event);
    if (row < 0) return;
    for (let pass = 0; pass < 4; pass++) {
      this.scroll.scrollTop = this.tops[Math.min(row, this.heights.length)] + offset;
      this.draw();
    }
  }

  // Makes a sentence the current one, brings it on the screen and gives it the focus.
  moveTo(event, sentence) {
    const drawn = this.show(event, sentence);
    if (drawn && !this.isTyping()) drawn.focus({ preventScroll: true });
  }

  // Makes a sentence the current one and brings it on the screen; gives its element.
  show(event, sentence) {
    if (this.rowOf(event) < 0) this.resetFilters();
    this.cursor = [event, sentence];
    let drawn = this.elementOf(event, sentence);
    if (!drawn) {
      this.goTo(event, sentence, -60);
      drawn = this.elementOf(event, sentence);
    }
    for (const other of this.sizer.querySelectorAll(".sentence.current")) other.classList.remove("current");
    if (!drawn) return null;
    drawn.classList.add("current");
    const [box, screen] = [drawn.getBoundingClientRect(), this.scroll.getBoundingClientRect()];
    const bottom = Math.min(screen.bottom, window.innerHeight); // the list may be longer than the window
    if (box.top < screen.top + 8 || box.bottom > bottom - 8) {
      this.scroll.scrollTop += box.top - screen.top - Math.min(90, screen.height / 3);
      this.draw();
      drawn = this.elementOf(event, sentence);
    }
    return drawn;
  }

  // Whether the focus is in a field, here or anywhere on the page: it is not taken from there.
  isTyping() {
    const focused = this.section.getRootNode().activeElement ?? document.activeElement;
    return focused?.matches("input, select, textarea, [contenteditable]") ?? false;
  }

  // Event and number of the sentence that an element is part of; null where it is of none.
  sentenceAround(part) {
    const sentence = part.closest(".sentence");
    return sentence && [+sentence.closest(".row").dataset.event, +sentence.dataset.sentence];
  }

  elementOf(event, sentence) {
    return this.sizer.querySelector(`[data-event="${event}"] [data-sentence="${sentence}"]`);
  }

  // Sentences that can be marked are check boxes: Tab reaches them, space marks.
  key(event) {
    const sentence = event.target.closest(".sentence[role=checkbox]");
    if (event.key !== " " || !sentence) return;
    event.preventDefault();
    const place = this.sentenceAround(sentence);
    this.moveTo(...place);
    this.change(...place);
  }

  click(event) {
    const sentence = event.target.closest(".sentence");
    if (!sentence || !document.getSelection().isCollapsed) return;
    const place = this.sentenceAround(sentence);
    this.moveTo(...place);
    if (this.marking) this.change(...place);
  }

  // Marks or unmarks a sentence: shown at once, and saved by the server.
  change(event, sentence) {
    const on = !this.isMarked(event, sentence);
    this.setMarked(event, sentence, on);
    QUEUE.waiting.push({ id: ++QUEUE.last, context: this.marking.context, event, sentence, on });
    this.redraw();
    this.moveTo(event, sentence);
    this.report();
    this.sendMarks();
  }

  // Sends all marks that wait, now and until they are acknowledged.
  sendMarks() {
    clearTimeout(this.again);
    if (!QUEUE.waiting.length) return;
    this.send("changes", { page: QUEUE.page, sent: ++QUEUE.sent, changes: QUEUE.waiting });
    this.again = setTimeout(() => this.sendMarks(), RESEND_MS);
  }
}
