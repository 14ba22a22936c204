import { z } from "zod";

/** Longest text a person may send along with a message. Kept in the history, so bounded. */
export const TEXT_LIMIT = 1000;
/** Longest name of a person or of a gate. */
export const NAME_LIMIT = 200;

const name = z.string().trim().min(1).max(NAME_LIMIT);
const text = z.string().trim().min(1).max(TEXT_LIMIT);
const count = z.number().finite().nonnegative();

/** Update `approve`: lets the move pass a gate, now or later. */
export const approveInput = z.strictObject({
  gate: name.describe("Name of the phase before which the move waits"),
  by: name.describe("Who approves"),
  reason: text.optional().describe("Why; kept in the history"),
});

/** Update `pause`: holds the move before its next phase. */
export const pauseInput = z.strictObject({
  by: name.describe("Who pauses"),
  reason: text.optional().describe("Why; kept in the history"),
});

/** Update `resume`: ends a pause, or runs the phase, or the undo, again that needs attention. */
export const resumeInput = z.strictObject({ by: name.describe("Who resumes") });

/** Update `abort`: undoes everything and ends the move, as long as that is possible. */
export const abortInput = z.strictObject({
  by: name.describe("Who aborts"),
  reason: text.describe("Why; kept in the history and in the failure"),
});

/** Signal `progressed`: sent by long activities, a bounded number of times however long they run. */
export const progressedInput = z.strictObject({
  phase: name.describe("Phase that the figures belong to"),
  done: count.describe("Units done so far"),
  total: count.optional().describe("Units to do, where known"),
  unit: name.describe("What is counted: keys, pages, objects"),
  bytes: count.optional().describe("Bytes moved so far"),
  lagMs: count.optional().describe("How far the destination is behind, in ms"),
  lagRevisions: count.optional().describe("How far the destination is behind, in revisions"),
});

export type ApproveInput = z.infer<typeof approveInput>;
export type PauseInput = z.infer<typeof pauseInput>;
export type ResumeInput = z.infer<typeof resumeInput>;
export type AbortInput = z.infer<typeof abortInput>;
export type ProgressedInput = z.infer<typeof progressedInput>;
