import type { Results, Row } from "./results.ts";

const width = 720;
const labelWidth = 300;
const barHeight = 18;
const rowHeight = 26;
const titleHeight = 34;
const colours = ["#2563eb", "#dc2626", "#d97706", "#059669"];

/** Horizontal bars, one group a metric, each group on its own scale: metrics have different units. */
export function plotOf({ name, rows }: Results): string {
  const systems = [...new Set(rows.map(({ system }) => system))];
  const groups = [...Map.groupBy(rows, ({ metric, unit }) => `${metric} (${unit})`)];
  let y = titleHeight;
  const parts: string[] = [];
  for (const [title, group] of groups) {
    parts.push(text(10, y + 14, title, "font-weight='bold'"));
    y += rowHeight;
    const most = Math.max(1, ...group.map(({ median }) => median));
    for (const row of group) {
      parts.push(bar(row, y, most, colours[systems.indexOf(row.system) % colours.length]!));
      y += rowHeight;
    }
    y += 8;
  }
  const heading = text(10, 22, name, "font-size='16' font-weight='bold'");
  return `<svg xmlns='http://www.w3.org/2000/svg' width='${width}' height='${y}' font-family='sans-serif' font-size='13'>
<rect width='100%' height='100%' fill='white'/>
${[heading, ...parts].join("\n")}
</svg>
`;
}

function bar({ system, median }: Row, y: number, most: number, colour: string): string {
  const length = Math.max(1, ((width - labelWidth - 110) * median) / most);
  const value = Number.isInteger(median) ? String(median) : median.toFixed(1);
  return [
    text(24, y + 14, system),
    `<rect x='${labelWidth}' y='${y}' width='${length.toFixed(1)}' height='${barHeight}' fill='${colour}'/>`,
    text(labelWidth + length + 6, y + 14, value),
  ].join("\n");
}

function text(x: number, y: number, content: string, attributes = ""): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x='${x.toFixed(1)}' y='${y}' ${attributes}>${escaped}</text>`;
}
