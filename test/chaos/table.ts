import type { Outcome } from "./run.ts";

const HEADINGS = ["stage", "fault", "result", "tries", "move s", "longest gap s"] as const;

/** The outcomes as a table in Markdown. */
export function tableOf(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map(({ stage, fault, misses, moveMs, longestGapMs, ...outcome }) => [
    stage,
    fault,
    verdictOf(outcome),
    String(misses + 1),
    (moveMs / 1000).toFixed(1),
    (longestGapMs / 1000).toFixed(1),
  ]);
  return [HEADINGS, HEADINGS.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

export function verdictOf({ broken, hit, refused }: Pick<Outcome, "broken" | "hit" | "refused">): string {
  if (broken.length > 0) return `BROKEN: ${broken.join("; ")}`;
  if (!hit) return "never hit";
  return refused ? "refused, nothing changed" : "held";
}
