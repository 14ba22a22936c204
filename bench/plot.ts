import type { Results, Row } from "./results.ts";

const width = 800;
const labelWidth = 360;
const barHeight = 18;
const rowHeight = 26;
const titleHeight = 34;
const colours = ["#2563eb", "#dc2626", "#d97706", "#059669"];

/**
 * Horizontal bars of medians with a line from the lowest to the highest figure; one group a metric, each group on its
 * own scale, since metrics have different units.
 */
export function plotOf({ name, rows }: Results): string {
  const systems = [...new Set(rows.map(({ system }) => system))];
  const groups = [...Map.groupBy(rows, ({ metric, unit }) => `${metric} (${unit})`)];
  let y = titleHeight;
  const parts: string[] = [];
  for (const [title, group] of groups) {
    parts.push(text(10, y + 14, title, "font-weight='bold'"));
    y += rowHeight;
    const most = Math.max(1, ...group.map(({ max }) => max));
    const isOneSize = new Set(group.map(({ size }) => size)).size === 1;
    for (const row of group) {
      const label = isOneSize ? row.system : `${row.system}, ${row.size.toLocaleString("en-US")}`;
      const colour = colours[systems.indexOf(row.system) % colours.length]!;
      parts.push(bar(row, { label, y, most, colour }));
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

interface Bar {
  readonly label: string;
  readonly y: number;
  /** The figure that takes the whole width. */
  readonly most: number;
  readonly colour: string;
}

function bar({ median, min, max }: Row, { label, y, most, colour }: Bar): string {
  const place = (value: number) => labelWidth + ((width - labelWidth - 110) * value) / most;
  const length = Math.max(1, place(median) - labelWidth);
  const middle = y + barHeight / 2;
  const value = Number.isInteger(median) ? String(median) : median.toFixed(1);
  return [
    text(24, y + 14, label),
    `<rect x='${labelWidth}' y='${y}' width='${length.toFixed(1)}' height='${barHeight}' fill='${colour}'/>`,
    ...(min === max
      ? []
      : [
          `<line x1='${place(min).toFixed(1)}' y1='${middle}' x2='${place(max).toFixed(1)}' y2='${middle}' stroke='black'/>`,
        ]),
    text(place(max) + 6, y + 14, value),
  ].join("\n");
}

function text(x: number, y: number, content: string, attributes = ""): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x='${x.toFixed(1)}' y='${y}' ${attributes}>${escaped}</text>`;
}
