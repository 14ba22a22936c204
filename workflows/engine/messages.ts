import { defineQuery, defineSignal, defineUpdate, log, setHandler } from "@temporalio/workflow";
import type {
  AbortInput,
  ApproveInput,
  PauseInput,
  ProgressedInput,
  ResumeInput,
} from "../../inputs/messages.ts";
import { failure } from "./failures.ts";
import type { FailureType } from "./failures.ts";
import type { Journal } from "./journal.ts";
import { isMisplaced, misshapen, refuseAbort, refuseApprove, refusePause, refuseResume } from "./requests.ts";
import { failedUndo } from "./state.ts";
import type { MigrationState } from "./state.ts";

/** The same for every kind. Each update answers with one sentence that says what follows from it. */
export const progressQuery = defineQuery<MigrationState>("progress");
export const approveUpdate = defineUpdate<string, [ApproveInput]>("approve");
export const pauseUpdate = defineUpdate<string, [PauseInput]>("pause");
export const resumeUpdate = defineUpdate<string, [ResumeInput]>("resume");
export const abortUpdate = defineUpdate<string, [AbortInput]>("abort");
export const progressedSignal = defineSignal<[ProgressedInput]>("progressed");

function refuseWith(type: FailureType, reason: string | undefined): void {
  if (reason !== undefined) throw failure(type, reason);
}

function stated(reason: string | undefined): { reason?: string } {
  return reason === undefined ? {} : { reason: reason.trim() };
}

/**
 * Answers messages from now on. Validators are synchronous, because the SDK does not await them: an asynchronous one
 * would let everything pass. A refused update leaves no event in the history.
 */
export function answerMessages(journal: Journal): void {
  setHandler(progressQuery, () => journal.state, { description: "How far the move is" });
  answerApprove(journal);
  answerPauseAndResume(journal);
  answerAbort(journal);
  setHandler(progressedSignal, (input) => {
    const flaw = misshapen("progressed", input);
    if (flaw !== undefined) return log.warn("a progress signal was dropped", { flaw });
    if (isMisplaced(journal.state, input.phase)) return undefined;
    journal.record({ type: "progressed", ...input });
    return undefined;
  });
}

function answerApprove(journal: Journal): void {
  const approve = ({ gate, by, reason }: ApproveInput): string => {
    const early = journal.state.waitingFor !== gate.trim();
    journal.record({ type: "approved", gate: gate.trim(), by: by.trim(), ...stated(reason) });
    return early ? `${gate.trim()} is approved; the move will not wait there` : `${gate.trim()} is approved`;
  };
  setHandler(approveUpdate, approve, {
    description: "Let the move pass a gate, now or later",
    validator(input) {
      refuseWith("InvalidInput", misshapen("approve", input));
      refuseWith("Refused", refuseApprove(journal.state, input.gate.trim()));
    },
  });
}

function answerPauseAndResume(journal: Journal): void {
  const pause = ({ by, reason }: PauseInput): string => {
    journal.record({ type: "pause asked", by: by.trim(), ...stated(reason) });
    const next = journal.state.steps.find(({ state, pausable }) => state === "pending" && pausable);
    return `the move will pause before ${next?.name ?? "its end"}`;
  };
  setHandler(pauseUpdate, pause, {
    description: "Hold the move before its next phase",
    validator(input) {
      refuseWith("InvalidInput", misshapen("pause", input));
      refuseWith("Refused", refusePause(journal.state));
    },
  });
  const resume = ({ by }: ResumeInput): string => {
    const { status, phase } = journal.state;
    const undo = failedUndo(journal.state);
    journal.record({ type: "resumed", by: by.trim() });
    if (status !== "needs attention") return "the move goes on";
    return undo ? `the undo of ${phase} is tried again` : `${phase} runs again`;
  };
  setHandler(resumeUpdate, resume, {
    description: "End a pause, or run again what needs attention",
    validator(input) {
      refuseWith("InvalidInput", misshapen("resume", input));
      refuseWith("Refused", refuseResume(journal.state));
    },
  });
}

function answerAbort(journal: Journal): void {
  const abort = ({ by, reason }: AbortInput): string => {
    journal.record({ type: "abort asked", by: by.trim(), reason: reason.trim() });
    return journal.state.dryRun ? "the dry run is stopped" : "the move is being stopped and undone; watch it";
  };
  setHandler(abortUpdate, abort, {
    description: "Undo everything and end the move",
    validator(input) {
      refuseWith("InvalidInput", misshapen("abort", input));
      refuseWith("Refused", refuseAbort(journal.state));
    },
  });
}
