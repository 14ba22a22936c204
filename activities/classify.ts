import { ApplicationFailure, CancelledFailure } from "@temporalio/common";
import {
  LaggingError,
  RefusedError as DnsRefusedError,
  ServerFailureError,
  UnreachableError,
} from "../dns/errors.ts";
import {
  GaveUpError,
  MembershipError,
  RefusedError as MembershipRefusedError,
} from "../etcd/membership/errors.ts";
import { CompactedError, LockedError, SupersededError } from "../etcd/errors.ts";
import { ClaimedError } from "../hosting/types.ts";
import { ApiError, UnpermittedError } from "../kubernetes/api-server.ts";
import { FenceTakenError } from "../kubernetes/kcp/fence.ts";
import { WaitError } from "../kubernetes/wait.ts";
import { UnknownSiteError } from "../sites/unknown-site.ts";
import { failure } from "../workflows/engine/failures.ts";
import type { FailureType } from "../workflows/engine/failures.ts";

/** gRPC status names as etcd3 (lib/errors.js) has them in its class names, and what each means for a retry. */
const GRPC: readonly (readonly [pattern: RegExp, type: FailureType])[] = [
  [/^GRPC(Unavailable|DeadlineExceeded|Cancelled|Aborted|ResourceExhasted)Error$/, "Unreachable"],
  [/^GRPCUnauthenticatedError$|^EtcdPermissionDeniedError$|^EtcdAuthenticationFailedError$/, "Unauthorized"],
];

/** Codes of Node's sockets and TLS that time may heal. A certificate that is not trusted is not among them. */
const SOCKET =
  /^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|UND_ERR)/;
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY)|ERR_TLS|certificate/i;

/**
 * The only place where an error of a library becomes a failure of a move, and where it is decided whether trying again
 * can help. Messages keep names and statuses, never bodies of tenants' objects.
 */
export function classify(error: unknown): Error {
  if (error instanceof ApplicationFailure || error instanceof CancelledFailure) return error;
  if (!(error instanceof Error)) return failure("Unexpected", String(error));
  const type = failureTypeOf(error);
  return failure(type, error.message);
}

function failureTypeOf(error: Error): FailureType {
  if (error instanceof SupersededError || error instanceof FenceTakenError) return "Superseded";
  if (error instanceof LockedError || error instanceof ClaimedError) return "LockLost";
  if (error instanceof CompactedError) return "Compacted";
  if (error instanceof UnknownSiteError) return "InvalidInput";
  if (error instanceof WaitError) return "Timeout";
  if (error instanceof ApiError) return typeOfStatus(error.status);
  if (error instanceof UnpermittedError) return failureTypeOf(error.cause);
  const domain = typeOfDomain(error);
  if (domain) return domain;
  const code = "code" in error ? String(error.code) : "";
  const grpc = GRPC.find(([pattern]) => pattern.test(error.constructor.name));
  if (grpc) return grpc[1];
  if (CERTIFICATE.test(code)) return "Unauthorized";
  if (SOCKET.test(code) || error.name === "TimeoutError") return "Unreachable";
  return "Unexpected";
}

/** etcd's membership and DNS: what they refuse stays refused, and a member or server that is down may come back. */
function typeOfDomain(error: Error): FailureType | undefined {
  if (error instanceof MembershipRefusedError || error instanceof DnsRefusedError) return "Refused";
  if (
    error instanceof MembershipError ||
    error instanceof UnreachableError ||
    error instanceof ServerFailureError
  )
    return "Unreachable";
  if (error instanceof GaveUpError || error instanceof LaggingError) return "Timeout";
  return undefined;
}

function typeOfStatus(status: number): FailureType {
  if (status === 401) return "Unauthorized";
  // kcp answers 403 also for a cluster that a front-proxy does not know yet, so it may pass.
  return status === 429 || status === 403 || status >= 500 ? "Unreachable" : "Unexpected";
}

/** The same activities, each throwing nothing but what {@link classify} makes. */
export function classified<A extends object>(activities: A): A {
  const wrapped = Object.entries(activities).map(([name, activity]) => [
    name,
    async (...input: unknown[]) => {
      try {
        return await (activity as (...args: unknown[]) => Promise<unknown>)(...input);
      } catch (error) {
        throw classify(error);
      }
    },
  ]);
  return Object.fromEntries(wrapped) as A;
}
