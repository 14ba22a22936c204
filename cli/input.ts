import type { z } from "zod";
import { CommandError, EXIT } from "./exit-codes.ts";
import { DEFAULT_KIND, KIND_NAMES, kindOf } from "./kinds.ts";
import type { Kind } from "./kinds.ts";

/** Fields of the input that have an option of their own. */
export interface InputFlags {
  readonly logicalCluster?: string;
  readonly controlPlane?: string;
  readonly to?: string;
  readonly from?: string;
  readonly gate?: readonly string[];
  readonly fence?: string;
  /** JSON of the whole input; the other options replace its fields. */
  readonly input?: string;
}

export interface CheckedInput {
  readonly kindName: string;
  readonly kind: Kind;
  /** As it was typed, without the defaults: the history shows what was asked for. */
  readonly input: Readonly<Record<string, unknown>>;
}

/**
 * The input that a command line asks for, checked as the worker will check it.
 *
 * @throws CommandError with a line for each flaw: the field, its value, and what to write instead.
 */
export function inputFrom(typedKind: string | undefined, flags: InputFlags): CheckedInput {
  const kindName = typedKind ?? (flags.controlPlane === undefined ? DEFAULT_KIND : "controlPlaneMigration");
  const kind = kindOf(kindName);
  if (kind === undefined) {
    throw new CommandError(
      EXIT.usage,
      `no kind of move is called ${JSON.stringify(kindName)}; there is ${KIND_NAMES.join(", ")}`,
    );
  }
  const { gate, input: json, logicalCluster, controlPlane, to, from, fence } = flags;
  const given = { logicalCluster, controlPlane, to, from, fence, gates: gate };
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  const input = { ...parseObject(json), ...Object.fromEntries(set) };
  const checked = kind.schema.safeParse(input, { reportInput: true });
  if (checked.success) return { kindName, kind, input };
  const flaws = checked.error.issues.map((issue) => `  ${flawWords(issue, kind)}`);
  throw new CommandError(EXIT.usage, `this ${kindName} cannot be started:\n${flaws.join("\n")}`);
}

function parseObject(json: string | undefined): Record<string, unknown> {
  if (json === undefined) return {};
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new CommandError(EXIT.usage, `--input is not JSON: ${(error as Error).message}`, error);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new CommandError(EXIT.usage, `--input must be a JSON object, as in --input '{"to":"shard-1"}'`);
}

/** `gates[0]: "cutover" is not one of AlignRevisions, CopySnapshot; set it with --gate <phase>`. */
function flawWords(issue: z.core.$ZodIssue, kind: Kind): string {
  if (issue.code === "unrecognized_keys" && issue.path.length === 0) {
    const known = Object.keys(kind.schema.shape).join(", ");
    return `${issue.keys.join(", ")}: no such field; the fields are ${known}`;
  }
  const [field] = issue.path;
  const flag = typeof field === "string" ? kind.flags[field] : undefined;
  const fix = flag === undefined ? "" : `; set it with ${flag}`;
  const where = issue.path
    .map((part, index) =>
      typeof part === "number" ? `[${part}]` : index === 0 ? String(part) : `.${String(part)}`,
    )
    .join("");
  return `${where}: ${valueWords(issue)}${fix}`;
}

function valueWords(issue: z.core.$ZodIssue): string {
  if (issue.input === undefined) return "is missing";
  if (issue.code === "unrecognized_keys") return issue.message;
  const value = shorten(JSON.stringify(issue.input));
  if (issue.code === "invalid_value") return `${value} is not one of ${issue.values.join(", ")}`;
  return `${value} is not valid: ${issue.message}`;
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

const ID_LIMIT = 250;

/** The same id for the same subject, so that two moves of it cannot run at once. */
export function defaultWorkflowId({ kindName, kind, input }: CheckedInput): string {
  const subject = kind.subject(input).replaceAll(/[^\w.:-]/g, "-");
  return `${kindName}/${subject}`.slice(0, ID_LIMIT);
}
