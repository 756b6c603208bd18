for (const head of document.querySelectorAll("#table thead th.number")) {
  head.classList.add("sortable");
  head.onclick = () => {
    const down = head.getAttribute("aria-sort") !== "descending", place = head.cellIndex;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = document.querySelector("#table tbody"), value = row => +row.cells[place].dataset.value;
    body.append(...[...body.rows].sort((a, b) => (value(a) - value(b)) * (down ? -1 : 1)));
  };
}
