import { log } from "@temporalio/workflow";
import { reduce } from "./reduce.ts";
import type { MigrationEvent, MigrationState } from "./state.ts";
import { showState } from "./visibility.ts";
import type { Shown } from "./visibility.ts";

/** `Omit` that keeps the alternatives of a union apart. */
type Undated<E> = E extends unknown ? Omit<E, "at"> : never;

/** The state of a running move: the only place that changes it, and that shows each change. */
export interface Journal {
  readonly state: MigrationState;
  record(event: Undated<MigrationEvent>): void;
}

/** A journal that goes on from a state. Everything is shown once at the start, since a new run shows nothing yet. */
export function openJournal(start: MigrationState): Journal {
  let state = start;
  let shown: Shown | undefined = showState(state, undefined);
  return {
    get state() {
      return state;
    },
    record(event) {
      state = reduce(state, { ...event, at: Date.now() });
      shown = showState(state, shown);
      if (event.type !== "progressed") log.info(event.type, attributesOf(event, state));
    },
  };
}

/** What a log line says besides the workflow's id and type, which the SDK adds. */
function attributesOf(
  event: Undated<MigrationEvent>,
  { kind, phase, status }: MigrationState,
): Record<string, unknown> {
  return { kind, phase: "phase" in event ? event.phase : phase, status };
}
