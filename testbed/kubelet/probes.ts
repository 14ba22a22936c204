import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { V1Container, V1HTTPGetAction, V1Probe } from "@kubernetes/client-node";

export interface ProbeTarget {
  readonly podIP: string;
  readonly container: V1Container;
  /** Runs a command in the container; undefined means that it took too long. */
  readonly execute: (command: readonly string[], timeoutMs: number) => Promise<number | undefined>;
}

type Port = number | string;

/** Probes of Kubernetes with their defaults filled in. Times in ms. */
export function probeTiming(probe: V1Probe) {
  return {
    initialDelayMs: (probe.initialDelaySeconds ?? 0) * 1_000,
    periodMs: seconds(probe.periodSeconds, 10),
    timeoutMs: seconds(probe.timeoutSeconds, 1),
    successThreshold: probe.successThreshold || 1,
    failureThreshold: probe.failureThreshold || 3,
  };
}

/**
 * Calls `onResult` with true and false as a probe crosses its thresholds, once
 * for each crossing, until the signal aborts. The first result of a failing
 * probe comes after `failureThreshold` failures, too.
 */
export async function watchProbe(
  probe: V1Probe,
  target: ProbeTarget,
  onResult: (healthy: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  const { initialDelayMs, periodMs, timeoutMs, successThreshold, failureThreshold } = probeTiming(probe);
  let healthy: boolean | undefined;
  let [latest, inARow] = [false, 0];
  try {
    await delay(initialDelayMs, undefined, { signal });
    for (;;) {
      const result = await probeOnce(probe, target, timeoutMs);
      signal.throwIfAborted();
      inARow = result === latest ? inARow + 1 : 1;
      latest = result;
      if (result !== healthy && inARow >= (result ? successThreshold : failureThreshold)) {
        healthy = result;
        onResult(result);
      }
      await delay(periodMs, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

function seconds(value: number | undefined, otherwise: number): number {
  return (value || otherwise) * 1_000;
}

/** Result of one probe. What cannot be reached, or answers too late, is a failure. */
export async function probeOnce(probe: V1Probe, target: ProbeTarget, timeoutMs: number): Promise<boolean> {
  const { exec, httpGet, tcpSocket } = probe;
  try {
    if (exec !== undefined) return (await target.execute(exec.command ?? [], timeoutMs)) === 0;
    if (httpGet !== undefined) return await probeHttp(httpGet, target, timeoutMs);
    if (tcpSocket !== undefined) {
      const port = portNumber(tcpSocket.port, target.container);
      return await probeTcp(tcpSocket.host ?? target.podIP, port, timeoutMs);
    }
  } catch {
    return false;
  }
  throw new Error(`container ${target.container.name} has a probe of an unknown kind`);
}

/** Number of a port that may be named. @throws Error for a name that the container does not have */
export function portNumber(port: Port, container: V1Container): number {
  if (typeof port === "number") return port;
  const number = container.ports?.find(({ name }) => name === port)?.containerPort ?? Number(port);
  if (Number.isNaN(number)) throw new Error(`container ${container.name} has no port ${port}`);
  return number;
}

async function probeHttp(get: V1HTTPGetAction, target: ProbeTarget, timeoutMs: number): Promise<boolean> {
  const secure = get.scheme === "HTTPS";
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const request = (secure ? httpsRequest : httpRequest)(
    {
      host: get.host ?? target.podIP,
      port: portNumber(get.port, target.container),
      path: get.path ?? "/",
      headers: Object.fromEntries((get.httpHeaders ?? []).map(({ name, value }) => [name, value])),
      // A new connection for each, as the kubelet does: what is probed is that one can be made.
      agent: false,
      rejectUnauthorized: false,
      signal: AbortSignal.timeout(timeoutMs),
    },
    (response) => {
      response.resume();
      response.on("error", reject);
      resolve(response.statusCode ?? 0);
    },
  );
  request.on("error", reject);
  request.end();
  const status = await promise;
  return status >= 200 && status < 400;
}

async function probeTcp(host: string, port: number, timeoutMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host, port, timeout: timeoutMs });
  socket.on("connect", () => resolve(true));
  socket.on("error", () => resolve(false));
  socket.on("timeout", () => resolve(false));
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}
