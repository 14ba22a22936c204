import { isGrpcDeadlineError, isGrpcServiceError, NamespaceNotFoundError } from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import { CommandError, EXIT } from "./exit-codes.ts";
import { oneLine } from "./view/format.ts";

/** No connection has come about. */
export class UnreachableError extends Error {
  constructor(cause: unknown) {
    super("no connection", { cause });
    this.name = "UnreachableError";
  }
}

/** Where requests went, for messages about them. */
export interface Endpoint {
  readonly address: string;
  readonly namespace: string;
}

const SAY_WHERE =
  "say where it is with --address host:port, TEMPORAL_ADDRESS, or temporal.address in rehome.yaml";
const CREDENTIALS = "check TEMPORAL_API_KEY, or temporal.tls and temporal.apiKeyFile in rehome.yaml";

/** Status codes of gRPC that are told apart here. */
const CODE = { cancelled: 1, permissionDenied: 7, unavailable: 14, unauthenticated: 16 } as const;

/** Status code of the server's answer, seen through the client's own errors. */
function codeOf(error: unknown): number | undefined {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if (isGrpcServiceError(link)) return link.code;
  }
  return undefined;
}

/** What the server, or the network, has said. */
export function serverWords(error: unknown): string {
  if (isGrpcDeadlineError(error)) return "no answer in time";
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if (isGrpcServiceError(link)) return oneLine(withoutGrpcJargon(link.details));
  }
  return oneLine(error instanceof Error ? error.message : String(error));
}

/** `No connection established. Last error: Error: self-signed certificate. Resolution note: …` → its middle. */
function withoutGrpcJargon(details: string): string {
  const reason = /^No connection established\. Last error: (?:Error: )?(.*?)\.? *Resolution note:/s.exec(
    details,
  );
  if (reason === null) return details;
  return reason[1] === undefined || reason[1] === "null" ? "no connection" : reason[1];
}

export function isNotFound(error: unknown): boolean {
  return error instanceof WorkflowNotFoundError;
}

/** Whether a server is at the other end and has said something, be it unwelcome. */
export function isAnswer(error: unknown): boolean {
  return codeOf(error) !== undefined && !isUnreachable(error);
}

/** Whether the server could not be reached, as against having answered something unwelcome. */
export function isUnreachable(error: unknown): boolean {
  const code = codeOf(error);
  if (error instanceof UnreachableError) return !isAnswer(error.cause);
  return isGrpcDeadlineError(error) || code === CODE.unavailable || code === CODE.cancelled;
}

/**
 * What a person needs to hear about an error of the client: one line that says what was asked of whom, and what to do.
 * Errors that are none of these are a defect, and are left as they are.
 */
export function explain(error: unknown, { address, namespace }: Endpoint): unknown {
  if (error instanceof CommandError) return error;
  const say = (text: string): CommandError => new CommandError(EXIT.unavailable, text, error);
  if (error instanceof NamespaceNotFoundError) {
    return say(
      `Temporal at ${address} has no namespace ${JSON.stringify(namespace)}: choose one with --namespace`,
    );
  }
  if (isUnreachable(error)) {
    return say(`Temporal does not answer at ${address} (${serverWords(error)}). Start it, or ${SAY_WHERE}.`);
  }
  switch (codeOf(error)) {
    case undefined:
      return error;
    case CODE.unauthenticated:
    case CODE.permissionDenied:
      return say(
        `Temporal at ${address} does not let this client into namespace ${namespace} (${serverWords(error)}): ${CREDENTIALS}`,
      );
    default:
      return say(`Temporal at ${address} answered: ${serverWords(error)}`);
  }
}
