// What Streamlit's widgets lack: long names on hover, cells of tables by keyboard, the list of keys,
// the address in the clipboard.
export default function () {
  if (window.midchartPage) return
  window.midchartPage = true

  // A name that its field is too narrow for is shown in full on hover.
  window.addEventListener("pointerover", ({ target }) => {
    const field = target.closest?.("[data-testid=stSelectbox] input, [role=option]")
    if (!field) return
    const text = field.value ?? field.textContent
    const parts = [field, ...field.querySelectorAll("*")]
    field.title = parts.some(one => one.scrollWidth > one.clientWidth) ? text : ""
  })
  window.addEventListener("keydown", event => {
    const editable = event.composedPath().some(one => one.matches?.("input,textarea,[contenteditable=true],[data-testid=stDataFrame]"))
    if (event.key !== "?" || editable || event.ctrlKey || event.metaKey || event.altKey) return
    document.querySelector(".st-key-keys button")?.click()
  })
  window.addEventListener("click", ({ target }) => {
    if (target.closest?.(".st-key-copy_link button")) navigator.clipboard?.writeText(location.href)
  })
  tablesByKeyboard()
}

// The arrow keys choose a cell of a table whose cells open something, Enter opens it.
// Streamlit's grid by itself opens its first cell as soon as Tab reaches it.
function tablesByKeyboard() {
  const grid = "[class*=st-key-opens_] [data-testid=data-grid-canvas]"
  const mark = document.createElement("output")
  mark.className = "midchart-cell"
  const label = mark.appendChild(document.createElement("span"))
  let at = null // the canvas with the row and column chosen
  let replaying = false
  let pointed = 0 // when a pointer was pressed
  const arrows = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }

  function show() {
    const { canvas, row, column } = at
    const table = canvas.querySelector("table")
    const scroller = canvas.closest("[data-testid=stDataFrame]").querySelector(".dvn-scroller")
    const height = scroller.querySelector(".dvn-scroll-inner").offsetHeight / table.ariaRowCount
    scroller.scrollTop = Math.min(Math.max(scroller.scrollTop, (row + 3) * height - scroller.clientHeight), row * height)
    const place = canvas.getBoundingClientRect()
    const top = place.top + (row + 1) * height - scroller.scrollTop
    const title = table.querySelectorAll("th")[column]?.textContent ?? ""
    const cell = canvas.querySelector(`#glide-cell-${column}-${row}`)?.textContent ?? ""
    label.textContent = `${title}: ${cell || `row ${row + 1}`} · Enter opens`
    Object.assign(mark.style, { left: `${place.left}px`, top: `${top}px`, width: `${place.width}px`, height: `${height}px` })
    document.body.append(mark)
  }

  function hide() {
    at = null
    mark.remove()
  }

  async function open({ canvas, row, column }) {
    const keys = [...Array(row).fill("ArrowDown"), ...Array(column).fill("ArrowRight")]
    replaying = true
    canvas.dispatchEvent(new FocusEvent("focusin", { bubbles: true })) // it chooses the first cell
    await new Promise(resolve => { setTimeout(resolve, 25) })
    for (const key of keys) { // faster than Streamlit reports a choice: it sends the last alone
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }))
      await new Promise(resolve => { setTimeout(resolve, 25) })
    }
    replaying = false
  }

  window.addEventListener("keydown", event => {
    const canvas = event.target
    if (replaying || !canvas.matches?.(grid)) return
    const table = canvas.querySelector("table")
    const step = arrows[event.key]
    if (step && table) {
      const next = at?.canvas === canvas ? at : { canvas, row: -step[0], column: -step[1] }
      const within = (place, count) => Math.min(Math.max(place, 0), count - 1)
      at = { canvas, row: within(next.row + step[0], table.ariaRowCount - 1), column: within(next.column + step[1], table.ariaColCount) }
      show()
    } else if (event.key === "Enter" && at?.canvas === canvas) {
      open(at)
      hide()
    } else return
    event.preventDefault()
    event.stopImmediatePropagation()
  }, true)
  window.addEventListener("pointerdown", () => { pointed = Date.now() }, true)
  window.addEventListener("focusin", event => {
    if (!replaying && Date.now() - pointed > 500 && event.target.matches?.(grid)) event.stopImmediatePropagation()
  }, true)
  for (const left of ["pointerdown", "focusout", "wheel", "popstate"]) window.addEventListener(left, hide, true)
}
