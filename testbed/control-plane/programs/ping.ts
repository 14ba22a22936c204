import { createSocket } from "node:dgram";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { Rhythm } from "../../workload/rhythm.ts";
import type { HostPort } from "./host-port.ts";

const perSecond = 10;
/** As that of the command ping: what comes later is lost. */
const answerWithinMs = 1_000;
const examples = 10;

/** Datagrams that were not answered, one after the other. */
export interface Loss {
  /** When the first of them was sent, ms since the epoch. */
  readonly from: number;
  readonly pings: number;
}

export interface PingResult {
  readonly pings: number;
  readonly lost: number;
  /** Most that were lost one after the other. */
  readonly longestLoss: number;
  readonly slowestMs: number;
  readonly losses: readonly Loss[];
}

/**
 * Sends a datagram to an echo ten times a second. Nobody sends it again, unlike a request over TCP, so what the way there
 * and back loses is seen. Until SIGTERM; then writes the {@link PingResult} as its last line.
 */
export async function ping({ to }: { readonly to: HostPort }): Promise<void> {
  const socket = createSocket("udp4");
  const pings: { readonly sentAt: number; ms?: number }[] = [];
  socket.on("message", (message) => {
    const answered = pings[message.readUInt32BE()]!;
    answered.ms ??= Date.now() - answered.sentAt;
  });
  // A refusal by the network is a ping without an answer.
  socket.on("error", (error) => console.error(error.message));
  const rhythm = new Rhythm(perSecond, async () => {
    const number = Buffer.alloc(4);
    number.writeUInt32BE(pings.length);
    pings.push({ sentAt: Date.now() });
    socket.send(number, to.port, to.host, (error) => error && console.error(error.message));
  });
  await once(process, "SIGTERM");
  await rhythm.stop();
  await delay(answerWithinMs);
  socket.close();
  console.log(JSON.stringify(resultOf(pings)));
}

function resultOf(pings: readonly { readonly sentAt: number; readonly ms?: number }[]): PingResult {
  const losses: { from: number; pings: number }[] = [];
  let inLoss = false;
  for (const { sentAt, ms = Infinity } of pings) {
    const isLost = ms > answerWithinMs;
    if (isLost && inLoss) losses.at(-1)!.pings += 1;
    else if (isLost) losses.push({ from: sentAt, pings: 1 });
    inLoss = isLost;
  }
  return {
    pings: pings.length,
    lost: losses.reduce((sum, loss) => sum + loss.pings, 0),
    longestLoss: Math.max(0, ...losses.map((loss) => loss.pings)),
    slowestMs: Math.max(0, ...pings.map(({ ms = 0 }) => ms)),
    losses: losses.slice(0, examples),
  };
}
