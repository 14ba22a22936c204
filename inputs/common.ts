import { z } from "zod";

/**
 * Name of a site (shard, seed, cluster, DNS server) as it stands in the worker's configuration. Also used as a label
 * and in search attributes, hence the narrow alphabet.
 */
export const siteName = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/,
    "a site name is 1 to 63 of a-z, 0-9, '-' and '.', and starts and ends with a letter or digit",
  );

/** A time span in ms, as an input field. */
export const durationMs = z
  .number()
  .int()
  .positive()
  .max(7 * 24 * 3600 * 1000);

/** Time limits of one activity, in ms; they replace the defaults of `workflows/engine/retries.ts`. */
export const limits = z.strictObject({
  attemptMs: durationMs.optional().describe("Longest time of one attempt"),
  totalMs: durationMs.optional().describe("Longest time of all attempts together"),
  heartbeatMs: durationMs.optional().describe("Longest silence of a running attempt"),
});

/** The fields that the input of every kind has. A kind extends it: `commonInput.extend({ … })`. */
export const commonInput = z.strictObject({
  gates: z
    .array(z.string().min(1).max(200))
    .max(50)
    .default([])
    .describe("Names of phases before which the move waits for the update `approve`"),
  dryRun: z.boolean().default(false).describe("Read and plan only; the result is the plan"),
});

/** The field `timeouts` of a kind with these activities. */
export function timeoutsOf<Name extends string>(activities: readonly [Name, ...Name[]]) {
  const error: z.core.$ZodErrorMap = (issue) =>
    issue.code === "unrecognized_keys"
      ? `no activity is called ${issue.keys.join(", ")}; there is ${activities.join(", ")}`
      : undefined;
  return z
    .partialRecord(z.enum(activities), limits, { error })
    .default({})
    .describe("Time limits by activity");
}
