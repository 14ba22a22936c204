import { z } from "zod";
import { documentLines } from "./document.ts";
import { duration, oneLine } from "./format.ts";
import { said } from "./says.ts";
import type { Outcome } from "./sight.ts";
import { tableLines } from "./table.ts";

type Failed = Exclude<Outcome, { status: "completed" }>;

/** What a plan cannot know yet, or has said by being one. */
const NOT_IN_A_PLAN: ReadonlySet<string> = new Set(["dryRun", "verified", "outage", "phases", "leftInPlace"]);

/** A result as a text for people. Whatever is no object is shown as it is. */
export function reportLines(result: unknown, headline: string | undefined): string[] {
  const top = headline === undefined ? [] : [headline, ""];
  if (typeof result !== "object" || result === null) return [...top, oneLine(String(result))];
  const entries = Object.entries(result).filter(([name]) => name !== "kind");
  const isPlan = "dryRun" in result && result.dryRun === true;
  const shown = isPlan ? entries.filter(([name]) => !NOT_IN_A_PLAN.has(name)) : entries;
  return [...top, ...documentLines(Object.fromEntries(shown))];
}

const spoken = z.object({ by: z.string(), at: z.number(), reason: z.string().optional() });

/** The engine's `EndDetails`, as far as they are there: an older worker may have written less. */
const endDetails = z.object({
  phase: z.string().optional(),
  facts: z
    .object({
      message: z.string(),
      site: z.string().optional(),
      expected: z.string().optional(),
      found: z.string().optional(),
      advice: z.string().optional(),
    })
    .optional()
    .catch(undefined),
  timeline: z
    .object({
      ms: z.number(),
      steps: z.array(
        z.object({
          name: z.string(),
          state: z.string(),
          startedAt: z.string().optional(),
          ms: z.number().optional(),
          runs: z.number(),
        }),
      ),
      approvals: z.array(spoken.extend({ gate: z.string() })),
      resumes: z.array(spoken),
      abort: spoken.optional(),
      comebacks: z.number(),
    })
    .optional()
    .catch(undefined),
});

type Timeline = NonNullable<z.infer<typeof endDetails>["timeline"]>;

/** A failed or aborted move as a text for people: what happened, what to do, what is left of it, and when. */
export function failureLines({ status, type, message, details }: Failed): string[] {
  const parsed = endDetails.safeParse(details);
  const { phase, facts, timeline } = parsed.success ? parsed.data : {};
  const where = phase === undefined ? "" : ` in ${phase}`;
  const lines = [`${status}${where}: ${oneLine(facts?.message ?? message)}`];
  const parts = {
    at: facts?.site,
    expected: facts?.expected,
    found: facts?.found,
    "what to do": facts?.advice,
  };
  for (const [name, part] of Object.entries(parts)) {
    if (part !== undefined) lines.push(`  ${name}: ${oneLine(part)}`);
  }
  if (facts !== undefined && type !== undefined) lines.push(`  kind of failure: ${type}`);
  if (timeline === undefined) return lines;
  // A move says how it failed only once its undo is complete.
  lines.push("  Everything that it had started is undone: it can be started again.");
  return [...lines, "", ...timelineLines(timeline)];
}

function timelineLines(timeline: Timeline): string[] {
  const begun = timeline.steps.filter(({ startedAt }) => startedAt !== undefined);
  const rows = begun.map(({ name, state, startedAt = "", ms, runs }) => [
    name,
    runs > 1 ? `${state}, run ${runs}` : state,
    ms === undefined ? "" : duration(ms),
    startedAt,
  ]);
  return [
    `Timeline, ${duration(timeline.ms)} in all`,
    ...tableLines(["phase", "state", "took", "started"], rows).map((line) => `  ${line}`),
    ...timeline.approvals.map((word) => `  ${moment(word.at)} ${word.gate} approved ${said(definite(word))}`),
    ...timeline.resumes.map((word) => `  ${moment(word.at)} resumed ${said(definite(word))}`),
    ...(timeline.abort === undefined
      ? []
      : [`  ${moment(timeline.abort.at)} abort asked ${said(definite(timeline.abort))}`]),
    ...(timeline.comebacks === 0
      ? []
      : [`  came back ${timeline.comebacks} times from the point of no return`]),
  ];
}

function definite({ by, at, reason }: z.infer<typeof spoken>): { by: string; at: number; reason?: string } {
  return reason === undefined ? { by, at } : { by, at, reason };
}

function moment(at: number): string {
  return new Date(at).toISOString();
}
