import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  abortInput,
  approveInput,
  NAME_LIMIT,
  pauseInput,
  progressedInput,
  resumeInput,
  TEXT_LIMIT,
} from "../../../inputs/messages.ts";
import { misshapen } from "../../../workflows/engine/requests.ts";

const SCHEMAS = {
  approve: approveInput,
  pause: pauseInput,
  resume: resumeInput,
  abort: abortInput,
  progressed: progressedInput,
} as const;

const value = fc.oneof(
  fc.constantFrom(
    "ada",
    "",
    "  ",
    "x".repeat(NAME_LIMIT),
    "x".repeat(NAME_LIMIT + 1),
    "x".repeat(TEXT_LIMIT + 1),
  ),
  fc.string(),
  fc.constantFrom(0, 1, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, null, undefined, true),
  fc.constant({}),
);

const SOUND = {
  approve: { gate: "Copy", by: "ada", reason: "quiet hour" },
  pause: { by: "ada", reason: "lunch" },
  resume: { by: "ada" },
  abort: { by: "ada", reason: "wrong cellar" },
  progressed: { phase: "Copy", done: 1, total: 2, unit: "keys", bytes: 3, lagMs: 4, lagRevisions: 5 },
} as const;

describe.each(Object.keys(SCHEMAS) as (keyof typeof SCHEMAS)[])("%s", (name) => {
  const sound: Readonly<Record<string, unknown>> = SOUND[name];
  const fields = Object.keys(sound);

  test("the validator in the workflow and the published schema agree", () => {
    const input = fc.oneof(
      value,
      fc.dictionary(fc.constantFrom(...fields, "other"), value),
      fc.record(
        Object.fromEntries(fields.map((field) => [field, fc.oneof(fc.constant(sound[field]), value)])),
      ),
    );
    fc.assert(
      fc.property(input, (candidate) => {
        expect(misshapen(name, candidate) === undefined).toBe(SCHEMAS[name].safeParse(candidate).success);
      }),
      { numRuns: 500 },
    );
  });

  test("takes a sound input", () => {
    expect(misshapen(name, sound)).toBeUndefined();
  });

  test("names the field that is missing", () => {
    const { [fields[0] ?? ""]: _, ...rest } = sound;
    expect(misshapen(name, rest)).toBe(`${name}: field ${fields[0]} is missing`);
  });
});

test("a refusal names the field, the value and what to give", () => {
  expect(misshapen("approve", { gate: 7, by: "ada" })).toBe("approve: field gate is 7; give a text");
  expect(misshapen("progressed", { phase: "Copy", unit: "keys", done: -1 })).toBe(
    "progressed: field done is -1; give a number that is not negative",
  );
  expect(misshapen("abort", { by: "ada", reason: "no", force: true })).toBe(
    'abort: unknown field "force"; known are by, reason',
  );
});
