import type { z } from "zod";
import { failure } from "../workflows/engine/failures.ts";

const SHOWN = 300;

/**
 * Checks what a person has typed.
 * @param example an input that is right, for the message.
 * @throws ApplicationFailure `InvalidInput` that names each wrong field.
 */
export function parseInput<S extends z.ZodType>(schema: S, raw: unknown, example: object): z.output<S> {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => `${issue.path.join(".") || "input"}: ${issue.message}`);
  throw failure("InvalidInput", {
    message: issues.join("; "),
    found: JSON.stringify(raw)?.slice(0, SHOWN) ?? "nothing",
    advice: `give for example ${JSON.stringify(example)}`,
  });
}
