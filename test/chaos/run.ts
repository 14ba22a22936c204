import { setTimeout as delay } from "node:timers/promises";
import type { WorkflowHandle } from "@temporalio/client";
import { progressQuery } from "../../workflows/engine/messages.ts";
import { stepOf } from "../../workflows/engine/state.ts";
import type { MigrationState, StepProgress } from "../../workflows/engine/state.ts";
import { pollUntil } from "../../kubernetes/wait.ts";
import { approve, failureOf } from "../e2e/harness/moves.ts";
import type { Fault, Place } from "./fault.ts";
import type { Kind, Round } from "./kind.ts";
import { chance } from "./matrix.ts";
import type { Cell } from "./matrix.ts";

/** What one cell of the matrix has shown. */
export interface Outcome {
  readonly phase: string;
  readonly fault: string;
  /** The fault was in effect while the phase ran, by the move's own account. */
  readonly hit: boolean;
  /** How often the fault came too late for the phase, and another move was tried. */
  readonly misses: number;
  /** The move was refused by its preflight, for the fault. */
  readonly refused: boolean;
  readonly moveMs: number;
  readonly broken: readonly string[];
}

/** Milliseconds that each phase takes when nothing goes wrong. */
export type Usual = ReadonlyMap<string, number>;

/** A phase that is over before the fault comes is tried again, each time earlier. */
const TRIES = 5;

export async function measureUsual<P extends Place>(kind: Kind<P>, place: P): Promise<Usual> {
  const round = await kind.begin(place);
  const move = await round.start([]);
  const report = await move.result();
  const { steps } = await stateOf(move);
  const broken = await round.conclude(report, true);
  if (broken.length > 0) throw new Error(`a move without faults: ${broken.join("; ")}`);
  return new Map(steps.map((step) => [step.name, (step.endedAt ?? 0) - (step.startedAt ?? 0)]));
}

/** @param seed decides at which moment of its phase the fault strikes. */
export async function runCell<P extends Place>(
  { kind, place, usual, seed }: { kind: Kind<P>; place: P; usual: Usual; seed: string },
  cell: Cell<P>,
): Promise<Outcome> {
  const { phase, fault } = cell;
  const broken: string[] = [];
  for (let misses = 0; ; misses++) {
    const round = await kind.begin(place);
    const share = chance(seed, phase, fault.name, misses) / 2 ** misses;
    const momentMs = (usual.get(phase) ?? 0) * 0.8 * share;
    const struck = await strikeMove({ round, place, fault, phase, momentMs, first: kind.phases[0]! });
    broken.push(...(await round.conclude(struck.report, fault.hidden)));
    await place.workers.bury();
    const { hit, refused, moveMs } = struck;
    if (hit || broken.length > 0 || misses + 1 === TRIES) {
      return { phase, fault: fault.name, hit, misses, refused, moveMs, broken };
    }
  }
}

interface Strike<P> {
  readonly round: Round;
  readonly place: P;
  readonly fault: Fault<P>;
  readonly phase: string;
  /** Since the phase's beginning. */
  readonly momentMs: number;
  /** The phase that has no gate before it. */
  readonly first: string;
}

interface Result {
  readonly report: unknown;
  readonly hit: boolean;
  readonly refused: boolean;
  readonly moveMs: number;
}

async function strikeMove<P>({ round, place, fault, phase, momentMs, first }: Strike<P>): Promise<Result> {
  const move = await round.start(phase === first ? [] : [phase]);
  if (phase !== first) {
    await untilState(move, ({ waitingFor }) => waitingFor === phase);
    await approve(move, phase);
    await untilState(move, ({ steps }) => steps.some(({ name, runs }) => name === phase && runs > 0));
  }
  await delay(momentMs);
  const struck = await fault.strike(place, move);
  const struckAt = Date.now();
  await delay(fault.lastsMs ?? 0);
  await struck.heal();
  const { report, refused } = await endOf(move, phase === first);
  const state = await stateOf(move);
  const step = stepOf(state, phase);
  const moveMs = (state.endedAt ?? 0) - state.startedAt;
  return { report, refused, moveMs, hit: step !== undefined && wasRunning(step, struckAt) };
}

/** Also of a phase that was run again, of which only the last run's times are kept. */
function wasRunning({ startedAt, endedAt, runs }: StepProgress, at: number): boolean {
  return at <= (endedAt ?? Infinity) && (runs > 1 || at >= (startedAt ?? Infinity));
}

async function endOf(
  move: WorkflowHandle,
  mayRefuse: boolean,
): Promise<{ report: unknown; refused: boolean }> {
  const result = move.result();
  if (!mayRefuse) return { report: await result, refused: false };
  try {
    return { report: await result, refused: false };
  } catch {
    const { type } = await failureOf(result);
    if (type === "Refused") return { report: undefined, refused: true };
    throw new Error(`the preflight failed with ${type}`);
  }
}

/** A worker that has just died or begun may leave a question without an answer. */
async function untilState(move: WorkflowHandle, holds: (state: MigrationState) => boolean): Promise<void> {
  const look = async () => {
    const state = await stateOf(move);
    return holds(state) || `${state.status} in ${state.phase}`;
  };
  await pollUntil("the move is where it is to be struck", look, { everyMs: 20, deadlineMs: 600_000 });
}

async function stateOf(move: WorkflowHandle): Promise<MigrationState> {
  return await move.query(progressQuery);
}
