// Draws one of Plotly's figures once it is near the screen or the page is there and at rest, and again
// only when it has changed. Plotly is loaded with the first figure that is drawn; a page without one
// does not load it.

const FIGURES = new WeakMap();
const MARGIN = "200px"; // how far outside of the screen a figure is drawn already
const REST = 1500; // milliseconds after which a figure further down is drawn as well
const OPTIONS = { displaylogo: false, displayModeBar: false };
const NARROW = 480; // pixels of a place that the names of rows would fill
const ABOVE = 30; // pixels that a row is higher where its name is above its marks
let loaded;

function load(address) {
  return (loaded ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(address, document.baseURI);
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => {
      loaded = undefined;
      script.remove();
      reject(new Error("the script of the figures cannot be loaded"));
    };
    document.head.append(script);
  }));
}

// Rows with their names above their marks, at the left end of the whole width.
function namesAbove(layout) {
  const { ticktext, tickvals, tickfont } = layout.yaxis;
  const names = ticktext.map((text, row) => ({
    text, y: tickvals[row], yshift: 8, yanchor: "bottom", x: 0, xref: "paper", xanchor: "left",
    align: "left", showarrow: false, font: tickfont,
  }));
  layout.annotations = [...(layout.annotations ?? []), ...names];
  layout.yaxis.showticklabels = false;
  layout.margin = { ...layout.margin, t: (layout.margin?.t ?? 28) + ABOVE };
  layout.height += ABOVE * (names.length + 1);
}

export default function ({ data, parentElement, setTriggerValue }) {
  let figure = FIGURES.get(parentElement);
  if (!figure) FIGURES.set(parentElement, (figure = new Figure(parentElement.querySelector(".js-plotly-plot"))));
  figure.send = setTriggerValue;
  figure.update(data);
  return () => {
    figure.close();
    FIGURES.delete(parentElement);
  };
}

class Figure {
  constructor(place) {
    this.place = place;
    this.near = false;
    this.rested = false;
    this.wanted = null; // the last of the data
    this.drawn = null; // the text of the figure that is drawn
    this.drawing = Promise.resolve();
    this.watcher = new IntersectionObserver((entries) => {
      this.near = this.rested || entries.at(-1).isIntersecting;
      this.draw();
    }, { rootMargin: MARGIN });
    this.watcher.observe(place);
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(place);
    this.timer = setTimeout(() => {
      this.near = this.rested = true;
      this.draw();
    }, REST);
    this.print = () => loaded && this.draw(true);
    addEventListener("beforeprint", this.print);
  }

  // A line where the record next to the figure is, moved without drawing anything else.
  follow({ percent, time }) {
    const axis = this.place._fullLayout?.xaxis;
    if (this.drawn === null || !axis) return;
    const at = axis.type === "date" ? (time ? axis.d2p(time) : null) : axis.d2p(percent);
    this.line ??= this.place.appendChild(document.createElement("i"));
    this.line.className = "midchart-place";
    this.line.hidden = at === null || !(at >= 0 && at <= axis._length);
    this.line.style.left = `${axis._offset + (at ?? 0)}px`;
  }

  update(data) {
    this.wanted = data;
    if (data.follows && !this.followed) {
      this.followed = ({ detail }) => this.follow(detail);
      document.addEventListener("midchart-place", this.followed);
    }
    this.place.setAttribute("role", "img");
    this.place.setAttribute("aria-label", data.alt);
    this.place.style.height = `${data.height}px`; // before it is drawn too, so that nothing moves
    this.draw();
  }

  draw(anyway = false) {
    if (!anyway && !this.near) return;
    this.drawing = this.drawing.then(() => this.drawWanted()).catch((error) => {
      if (this.wanted) this.place.textContent = `This figure is not shown: ${error.message}.`;
    });
  }

  async drawWanted() {
    const plotly = this.wanted && (await load(this.wanted.script));
    const { figure, opens } = this.wanted ?? {};
    if (!figure || figure === this.drawn) return;
    const first = this.drawn === null;
    this.drawn = figure;
    const { data, layout } = JSON.parse(figure);
    this.width = this.place.clientWidth;
    const named = layout.yaxis?.ticktext && layout.yaxis.type !== "category" && !this.wanted.follows;
    if (named && this.width < NARROW) namesAbove(layout);
    if (layout.height) this.place.style.height = `${layout.height}px`;
    if (opens) Object.assign(layout, { clickmode: "event+select", hovermode: "closest" });
    await plotly.react(this.place, data, layout, OPTIONS);
    if (first) this.place.on("plotly_click", ({ points }) => this.clicked(points[0]));
  }

  clicked(point) {
    const stated = point?.customdata ?? null;
    const values = ArrayBuffer.isView(stated) ? [...stated] : [stated].flat(); // a row of numbers is a view
    if (this.wanted?.opens && values[0] !== null) this.send("point", values);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.drawn === null || !width || width === this.width) return;
    if (width < NARROW !== this.width < NARROW) {
      this.drawn = "";
      return this.draw();
    }
    this.width = width;
    this.drawing = this.drawing.then(() => this.wanted && globalThis.Plotly.Plots.resize(this.place));
  }

  close() {
    this.wanted = null;
    clearTimeout(this.timer);
    this.watcher.disconnect();
    this.sizes.disconnect();
    removeEventListener("beforeprint", this.print);
    if (this.followed) document.removeEventListener("midchart-place", this.followed);
    if (this.drawn !== null) globalThis.Plotly.purge(this.place);
  }
}
