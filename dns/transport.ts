import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, isIPv6 } from "node:net";
import { lookup } from "node:dns/promises";
import { describeServer } from "./names.ts";
import type { DnsServer } from "./names.ts";
import type { Request } from "./message.ts";
import { headerBytes } from "./structure.ts";

/** Messages over UDP and TCP (RFC 1035 section 4.2, RFC 7766). */

/** This one attempt brought no answer; `message` tells why. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
  constructor(server: DnsServer, why: string, cause?: unknown) {
    super(`${describeServer(server)} ${why}`, { cause });
  }
}

export interface ExchangeOptions {
  readonly timeoutMs: number;
  /** Ends the exchange with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends a request in one datagram and waits for the answer to it. Datagrams of other senders and with other ids are
 * passed over.
 * @throws NoAnswerError, or the signal's reason
 */
export async function exchangeUdp(
  server: DnsServer,
  request: Request,
  options: ExchangeOptions,
): Promise<Buffer> {
  return await bounded(server, options, async (signal) => {
    const address = await addressOf(server);
    const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
    try {
      socket.connect(server.port, address);
      await once(socket, "connect", { signal });
      const answer = answerOf(socket, request.id, signal);
      socket.send(request.bytes);
      return await answer;
    } finally {
      socket.close();
    }
  });
}

async function answerOf(
  socket: ReturnType<typeof createSocket>,
  id: number,
  signal: AbortSignal,
): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    socket.on("message", (bytes) => {
      if (bytes.length >= headerBytes && bytes.readUInt16BE(0) === id) resolve(bytes);
    });
    // "connection refused", which the kernel learns by ICMP.
    socket.on("error", reject);
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}

/**
 * Sends a request over a connection of its own and waits for the answer.
 * @throws NoAnswerError, or the signal's reason. The request may have been carried out nevertheless.
 */
export async function exchangeTcp(
  server: DnsServer,
  request: Request,
  options: ExchangeOptions,
): Promise<Buffer> {
  return await bounded(server, options, async (signal) => {
    const socket = connect({ host: server.host, port: server.port, noDelay: true });
    const abort = () => socket.destroy(signal.reason as Error);
    signal.addEventListener("abort", abort, { once: true });
    try {
      await once(socket, "connect");
      const prefix = Buffer.alloc(2);
      prefix.writeUInt16BE(request.bytes.length);
      socket.write(Buffer.concat([prefix, request.bytes]));
      let received = Buffer.alloc(0);
      for await (const chunk of socket) {
        received = Buffer.concat([received, chunk as Buffer]);
        const end = received.length < 2 ? Infinity : 2 + received.readUInt16BE(0);
        if (received.length >= end) return received.subarray(2, end);
      }
      throw new Error("the connection was closed before the answer was whole");
    } finally {
      signal.removeEventListener("abort", abort);
      socket.destroy();
    }
  });
}

async function addressOf({ host }: DnsServer): Promise<string> {
  return (await lookup(host)).address;
}

async function bounded(
  server: DnsServer,
  { timeoutMs, signal }: ExchangeOptions,
  exchange: (signal: AbortSignal) => Promise<Buffer>,
): Promise<Buffer> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const either = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
  either.throwIfAborted();
  try {
    return await exchange(either);
  } catch (error) {
    signal?.throwIfAborted();
    if (timeout.aborted) throw new NoAnswerError(server, `did not answer within ${timeoutMs} ms`, error);
    throw new NoAnswerError(server, `does not answer (${(error as Error).message})`, error);
  }
}
