import { failedUndo } from "../../workflows/engine/state.ts";
import type { Figures, Lag, MigrationState, Word } from "../../workflows/engine/state.ts";
import { byteSize, count, duration, oneLine, percent } from "./format.ts";
import { START_A_WORKER } from "./hints.ts";
import { currentStep, routeOf, shareOf } from "./sight.ts";
import type { Outcome, Sight, Silence } from "./sight.ts";

/** What both views say in words. Pure. */

/** `root:team-a: root → shard-1`. */
export function routeWords(sight: Sight): string {
  const { subject, source, destination } = routeOf(sight);
  const route = destination === undefined ? "" : `: ${oneLine(source ?? "?")} → ${oneLine(destination)}`;
  return `${oneLine(subject)}${route}`;
}

/** What the move does now, in one sentence. */
export function statusWords(sight: Sight): string {
  const { state, outcome, indexed } = sight;
  if (outcome !== undefined) return outcomeWords(sight, outcome);
  if (state === undefined)
    return indexed.phase === undefined ? "started" : `last seen in ${oneLine(indexed.phase)}`;
  switch (state.status) {
    case "running":
      return runningWords(sight, state);
    case "waiting":
      return `waits for approval before ${state.phase}`;
    case "paused":
      return `paused ${said(state.paused)} before ${state.phase}`;
    case "retrying later":
      return `came back to ${state.phase}, and tries again in a moment: ${faultWords(state)}`;
    case "undoing":
      return `undoes what was done: ${state.phase}`;
    case "needs attention":
      return `needs attention in ${placeWords(state)}: ${faultWords(state)}`;
    case "completed":
    case "failed":
    case "aborted":
    case "cancelled":
      return state.status;
    default:
      return state.status satisfies never;
  }
}

function runningWords(sight: Sight, state: MigrationState): string {
  const step = currentStep(sight);
  const number = state.steps.findIndex(({ name }) => name === state.phase) + 1;
  const what = step === undefined ? state.phase : `${step.name}: ${oneLine(step.summary)}`;
  const waitsAfter = state.paused === undefined ? "" : ` (will pause, asked ${said(state.paused)})`;
  return `step ${number} of ${state.steps.length}, ${what}${waitsAfter}`;
}

/** Where something failed: `Copy`, `the undo of Copy`. */
export function placeWords(state: MigrationState): string {
  return failedUndo(state) ? `the undo of ${state.phase}` : state.phase;
}

function faultWords(state: MigrationState): string {
  const fault = failedUndo(state) ?? state.lastError;
  return fault === undefined ? "no error is known" : oneLine(fault.message);
}

/** `by alice (too early)`. */
export function said(word: Word | undefined): string {
  if (word === undefined) return "";
  return `by ${oneLine(word.by)}${word.reason === undefined ? "" : ` (${oneLine(word.reason)})`}`;
}

/** How it ended, in one sentence. */
export function outcomeWords(sight: Sight, outcome: Outcome): string {
  const { state } = sight;
  const took = duration((sight.closedAt ?? sight.at) - sight.startedAt);
  if (outcome.status === "completed") {
    if (state?.dryRun === true) return `plan made in ${took}`;
    const outageMs = outageOf(outcome.result);
    const outage = outageMs === undefined ? "" : `; users were affected for ${duration(outageMs)}`;
    return `completed in ${took}${outage}`;
  }
  return `${outcome.status} after ${took}: ${oneLine(outcome.message)}`;
}

/** Reports of every kind that interrupts its users say so under this name. */
function outageOf(result: unknown): number | undefined {
  if (typeof result !== "object" || result === null) return undefined;
  const { outage } = result as { outage?: { totalMs?: unknown; earlier?: { ms: number } } };
  return typeof outage?.totalMs === "number" ? outage.totalMs + (outage.earlier?.ms ?? 0) : undefined;
}

/** `10,400 of 20,000 keys, 6.2 MB, 25,300/s`. */
export function figureWords(figures: Figures): string {
  const { done, total, unit, bytes, perSecond } = figures;
  const of = total === undefined ? "" : ` of ${count(total)}`;
  const parts = [`${count(done)}${of} ${oneLine(unit)}`.trim()];
  if (bytes !== undefined) parts.push(byteSize(bytes));
  if (perSecond !== undefined && perSecond > 0) parts.push(`${count(Math.round(perSecond))}/s`);
  return parts.join(", ");
}

/** `52%, 10,400 of 20,000 keys, 25,300/s`. */
export function progressWords(figures: Figures): string {
  const share = shareOf(figures);
  return share === undefined ? figureWords(figures) : `${percent(share)}, ${figureWords(figures)}`;
}

/** `0.4 s left`; nothing when it cannot be told. */
export function remainingWords(figures: Figures): string | undefined {
  const { done, total, perSecond } = figures;
  if (total === undefined || perSecond === undefined || perSecond <= 0 || done >= total) return undefined;
  return `${duration(((total - done) / perSecond) * 1000)} left`;
}

/** `shard-1 is 120 ms, 3 revisions behind`. */
export function lagWords(sight: Sight, lag: Lag): string {
  const parts = [
    ...(lag.ms === undefined ? [] : [duration(lag.ms)]),
    ...(lag.revisions === undefined ? [] : [`${count(lag.revisions)} revisions`]),
  ];
  return `${oneLine(routeOf(sight).destination ?? "the destination")} is ${parts.join(", ")} behind`;
}

/** Why nothing fresh is known, and what to do. */
export function silenceWords({ who, why }: Silence): string {
  if (who === "Temporal") return `Temporal does not answer (${oneLine(why)}); asking again`;
  return `no worker answers (${oneLine(why)}); the move goes on when one runs: ${START_A_WORKER}`;
}

/** Activities that wait or fail, each in one sentence. */
export function troubleWords(sight: Sight): string[] {
  return sight.work.flatMap(({ name, state, attempt, lastFailure, scheduledAt }) => {
    if (lastFailure !== undefined) {
      const then = state === "runs" ? "runs again" : state;
      return [`${name} ${then} (attempt ${attempt}); the last one failed: ${oneLine(lastFailure)}`];
    }
    const waitedMs = sight.at - scheduledAt;
    // A worker at work picks a task up in milliseconds.
    if (state !== "waits for a worker" || waitedMs < 3000) return [];
    return [`${name} has waited ${duration(waitedMs)} for a worker with room for it`];
  });
}
