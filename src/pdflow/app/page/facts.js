/** What is known about a cloud and its result, as lists of terms and values. */

const number = (value) => Number(value.toPrecision(3)).toString();
const count = (value) => value.toLocaleString("en");

export function showFacts(list, facts) {
  const { unit } = facts;
  const shown = facts.shown < facts.points ? `, ${count(facts.shown)} of them shown` : "";
  const rough = facts.noise_is_reliable ? "" : ", rough";
  fill(list, [
    ["points", `${count(facts.points)}${shown}`],
    facts.dropped ? ["dropped", `${count(facts.dropped)} NaN or infinite`] : null,
    ["size", `${facts.size.map(number).join(" × ")} ${unit}`],
    ["noise (estimated)", `${number(facts.noise)} ${unit}, ${number(100 * facts.relative_noise)} % of the radius${rough}`],
    facts.attributes.length ? ["attributes", facts.attributes.join(", ")] : null,
  ]);
}

export function showReport(list, report, unit) {
  fill(list, [
    ["points", count(report.points_out)],
    ["noise", `${number(report.noise_before)} → ${number(report.noise_after)} ${unit}`],
    ["moved (mean)", `${number(report.mean_displacement)} ${unit}`],
    ["moved (most)", `${number(report.max_displacement)} ${unit}`],
    ["passes", report.iterations],
    ["outliers", count(report.outliers)],
    ["took", `${number(report.seconds)} s`],
  ]);
}

function fill(list, rows) {
  const cells = rows.filter(Boolean).flatMap(([term, value]) => [cell("dt", term), cell("dd", value)]);
  list.replaceChildren(...cells);
}

function cell(kind, words) {
  const element = document.createElement(kind);
  element.textContent = words;
  return element;
}
