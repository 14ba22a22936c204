import { setTimeout as delay } from "node:timers/promises";
import type { WorkflowHandle } from "@temporalio/client";
import { progressQuery } from "../../workflows/engine/messages.ts";
import { hasEnded, PREFLIGHT, stepOf } from "../../workflows/engine/state.ts";
import type { MigrationState, StepProgress } from "../../workflows/engine/state.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import { approve, failureOf } from "../e2e/harness/moves.ts";
import type { Place } from "./fault.ts";
import type { Kind, Round } from "./kind.ts";
import { cellName, chance, stageName } from "./matrix.ts";
import type { Cell } from "./matrix.ts";

/** What one cell of the matrix has shown. */
export interface Outcome {
  readonly stage: string;
  readonly fault: string;
  /** The fault was in effect in that stage, by the move's own account. */
  readonly hit: boolean;
  /** How often the fault came too late for the phase, and another move was tried. */
  readonly misses: number;
  /** The move was refused by its preflight, for the fault. */
  readonly refused: boolean;
  /** The workflow's id, which cells that shared the move have in common. */
  readonly move: string;
  readonly moveMs: number;
  /** Of all faults of the move together. */
  readonly longestGapMs: number;
  readonly broken: readonly string[];
}

/** Milliseconds that each phase takes when nothing goes wrong. */
export type Usual = ReadonlyMap<string, number>;

/** A phase that is over before the fault comes is tried again. */
const TRIES = 5;

/** A phase that is usually over sooner is so before one has asked whether it has begun. */
const SHORT_MS = 800;

/** How much longer a move waits at its gate once it was struck there: kcp took five seconds to lead clients astray. */
const STAY_MS = 8_000;

export async function measureUsual<P extends Place>(kind: Kind<P>, place: P): Promise<Usual> {
  const round = await kind.begin(place);
  const move = await round.start([]);
  const report = await move.result();
  const { steps } = await stateOf(move);
  const { broken } = await round.conclude(report, true);
  if (broken.length > 0) throw new Error(`a move without faults: ${broken.join("; ")}`);
  return new Map(steps.map((step) => [step.name, (step.endedAt ?? 0) - (step.startedAt ?? 0)]));
}

/**
 * Strikes one move with all of these faults, and again with those that came too late for their phase.
 *
 * @param cells in the order of their stages, one of each.
 * @param seed decides at which moments of their phases the faults strike.
 */
export async function strikeMoves<P extends Place>(
  { kind, place, usual, seed }: { kind: Kind<P>; place: P; usual: Usual; seed: string },
  cells: readonly Cell<P>[],
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  let left = cells.map((cell) => ({ ...cell, misses: 0 }));
  while (left.length > 0) {
    const round = await kind.begin(place);
    const strikes = left.map((cell) => {
      const { phase, fault, misses } = cell;
      const usualMs = usual.get(phase) ?? 0;
      const haste = misses + (usualMs < SHORT_MS ? 1 : 0);
      return { ...cell, haste, momentMs: usualMs * 0.8 * chance(seed, phase, fault.name) };
    });
    const { report, move, moveMs, hits } = await strikeMove(round, place, strikes);
    const isHidden = left.every(({ fault }) => fault.hidden);
    // What a zombie does while it is awake must be seen too.
    await place.workers.bury();
    const { broken, longestGapMs } = await round.conclude(report, isHidden);
    const again: typeof left = [];
    for (const { misses, ...cell } of left) {
      const hit = hits.get(cellName(cell));
      if (!hit && broken.length === 0 && misses + 1 < TRIES) {
        again.push({ ...cell, misses: hit === undefined ? misses : misses + 1 });
        continue;
      }
      const refused = report === undefined && hit === true;
      outcomes.push({
        stage: stageName(cell),
        fault: cell.fault.name,
        hit: hit === true,
        misses,
        refused,
        move,
        moveMs,
        longestGapMs,
        broken,
      });
    }
    left = again;
  }
  return outcomes;
}

interface Strike<P> extends Cell<P> {
  /** 0: at its moment. 1: as soon as the phase has been let go. Above: at the same time. */
  readonly haste: number;
  /** Since the phase was seen to have begun. */
  readonly momentMs: number;
}

interface Struck {
  /** Undefined when the preflight has refused. */
  readonly report: unknown;
  readonly move: string;
  readonly moveMs: number;
  /** Of each cell by its name, whether its fault was in effect in its stage. */
  readonly hits: ReadonlyMap<string, boolean>;
}

async function strikeMove<P extends Place>(
  round: Round,
  place: P,
  strikes: readonly Strike<P>[],
): Promise<Struck> {
  const phases = new Set(strikes.map(({ phase }) => phase));
  const move = await round.start([...phases].filter((phase) => phase !== PREFLIGHT));
  const hits = new Map<string, boolean>();
  for (const strike of strikes) {
    if (strike.phase !== PREFLIGHT) {
      if (hasEnded(await untilHeld(move))) break;
      // Or it would have the step that the fault is for.
      await place.workers.bury();
    }
    const hit = strike.atGate ? strikeAtGate : strikePhase;
    hits.set(cellName(strike), await hit(move, place, strike));
    // Otherwise the phase is struck next, and let go for that.
    const isLast = strikes.findLast(({ phase }) => phase === strike.phase) === strike;
    if (strike.atGate && isLast) await approve(move, strike.phase);
  }
  const report = await reportOf(move, strikes[0]?.phase === PREFLIGHT);
  const { startedAt, endedAt } = await stateOf(move);
  return { report, move: move.workflowId, moveMs: (endedAt ?? 0) - startedAt, hits };
}

/** Strikes a move that waits at its gate, and lets it wait on. @returns whether it was hit. */
async function strikeAtGate<P extends Place>(
  move: WorkflowHandle,
  place: P,
  { phase, fault }: Strike<P>,
): Promise<boolean> {
  const struck = await fault.strike(place, move);
  await delay(fault.lastsMs ?? 0);
  const healed = await struck.heal();
  await delay(STAY_MS);
  const state = await untilHeld(move);
  return healed !== "missed" && state.status === "waiting" && state.phase === phase;
}

/** Lets a move into a phase, and strikes it there. @returns whether it was hit. */
async function strikePhase<P extends Place>(
  move: WorkflowHandle,
  place: P,
  { phase, fault, haste, momentMs }: Strike<P>,
): Promise<boolean> {
  let approved: Promise<unknown> | undefined;
  if (phase !== PREFLIGHT) {
    approved = approve(move, phase);
    if (haste < 2) await approved;
  }
  // Nothing is let go before the first of all phases, so it may begin when the fault is over.
  if (haste < (phase === PREFLIGHT ? 2 : 1)) await untilBegun(move, phase);
  if (haste < 1) await delay(momentMs);
  const struck = await fault.strike(place, move);
  const struckAt = Date.now();
  await delay(fault.lastsMs ?? 0);
  const healedAt = Date.now();
  const healed = await struck.heal();
  await approved;
  const step = stepOf(await untilHeld(move), phase);
  return healed !== "missed" && step !== undefined && wasRunning(step, struckAt, healedAt);
}

/** Also of a phase that was run again, of which only the last run's times are kept. */
function wasRunning({ startedAt, endedAt, runs }: StepProgress, from: number, to: number): boolean {
  return from <= (endedAt ?? Infinity) && (runs > 1 || to >= (startedAt ?? Infinity));
}

/** @returns undefined when a preflight that was struck has refused. */
async function reportOf(move: WorkflowHandle, mayRefuse: boolean): Promise<unknown> {
  const result = move.result();
  try {
    return await result;
  } catch {
    const { type, message, details } = await failureOf(result);
    if (mayRefuse && type === "Refused" && details?.phase === PREFLIGHT) return undefined;
    throw new Error(`the move failed with ${type} in ${details?.phase}: ${message}`);
  }
}

async function untilBegun(move: WorkflowHandle, phase: string): Promise<void> {
  await untilState(move, (state) => (stepOf(state, phase)?.runs ?? 0) > 0);
}

/** Waits until the move stands before its next gate, or has ended. */
async function untilHeld(move: WorkflowHandle): Promise<MigrationState> {
  return await untilState(move, (state) => state.status === "waiting" || hasEnded(state));
}

/** A worker that has just died or begun may leave a question without an answer. */
async function untilState(
  move: WorkflowHandle,
  holds: (state: MigrationState) => boolean,
): Promise<MigrationState> {
  let state!: MigrationState;
  const look = async () => {
    state = await stateOf(move);
    return holds(state) || `${state.status} in ${state.phase}`;
  };
  await pollUntil("the move is where it is to be struck", look, { everyMs: 20, deadlineMs: 600_000 });
  return state;
}

async function stateOf(move: WorkflowHandle): Promise<MigrationState> {
  return await move.query(progressQuery);
}
