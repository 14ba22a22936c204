import { setTimeout as delay } from "node:timers/promises";
import type { V1Container, V1Probe } from "@kubernetes/client-node";
import { watchProbe } from "./probes.ts";
import { Sandbox } from "./sandbox.ts";
import type { SandboxExit, SandboxSpec } from "./sandbox.ts";
import type { ContainerState, ContainerView } from "./status.ts";
import { tell, wordsOf } from "./tell.ts";

export type RestartPolicy = "Always" | "OnFailure" | "Never";

export interface ContainerOptions {
  readonly container: V1Container;
  readonly restartPolicy: RestartPolicy;
  readonly podIP: string;
  readonly graceMs: number;
  /** What to run, with everything read anew: called before each start, and again when it throws. */
  readonly prepare: () => Promise<SandboxSpec>;
  /** Called after each change of {@link ContainerRunner.view}. */
  readonly onChange: () => void;
  /** State that the API server remembers from an earlier life of this node. */
  readonly earlier?: { readonly restartCount: number; readonly lastState?: ContainerState } | undefined;
}

/** Shorter than a kubelet's (10 s to 5 min): a test waits for it. */
const backOffMs = { first: 500, most: 8_000, forgottenAfter: 20_000 };
const prepareAgainMs = 1_000;

/** Keeps one container running, as its restart policy and its probes ask. */
export class ContainerRunner {
  readonly #options: ContainerOptions;
  readonly #stopping = new AbortController();
  #state: ContainerState = { waiting: { reason: "ContainerCreating" } };
  #lastState: ContainerState | undefined;
  #restartCount: number;
  #ready = false;
  #started = false;
  #sandbox: Sandbox | undefined;

  constructor(options: ContainerOptions) {
    this.#options = options;
    this.#restartCount = options.earlier?.restartCount ?? 0;
    this.#lastState = options.earlier?.lastState;
  }

  get view(): ContainerView {
    return {
      name: this.#options.container.name,
      state: this.#state,
      lastState: this.#lastState,
      ready: this.#ready,
      started: this.#started,
      restartCount: this.#restartCount,
    };
  }

  /** Runs until the container has ended for good: by its restart policy, or by {@link stop}. @returns its exit code */
  async run(): Promise<number> {
    let backOff = backOffMs.first;
    for (;;) {
      const sandbox = await this.#start();
      if (sandbox === undefined) return 137;
      const begun = performance.now();
      const { code } = await this.#runOnce(sandbox);
      const { restartPolicy } = this.#options;
      const goesOn = restartPolicy === "Always" || (restartPolicy === "OnFailure" && code !== 0);
      if (this.#isStopping || !goesOn) return code;
      if (performance.now() - begun > backOffMs.forgottenAfter) backOff = backOffMs.first;
      if (!(await this.#backOff(backOff))) return code;
      backOff = Math.min(backOff * 2, backOffMs.most);
    }
  }

  /** Ends the container: its preStop hook, SIGTERM, and SIGKILL after the grace time. It is not started again. */
  stop(graceMs: number): void {
    this.#stopping.abort();
    this.#terminate(graceMs);
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  #terminate(graceMs: number): void {
    const sandbox = this.#sandbox;
    if (sandbox === undefined) return;
    const timer = setTimeout(() => sandbox.signal("SIGKILL"), graceMs);
    void sandbox.exited.then(() => clearTimeout(timer));
    if (graceMs > 0) void this.#askToEnd(sandbox, graceMs);
  }

  async #askToEnd(sandbox: Sandbox, graceMs: number): Promise<void> {
    const hook = this.#options.container.lifecycle?.preStop?.exec?.command;
    if (hook !== undefined) await sandbox.execute(hook, graceMs);
    sandbox.signal("SIGTERM");
  }

  /** Tries until the program runs; undefined when the container is stopped before. */
  async #start(): Promise<Sandbox | undefined> {
    while (!this.#isStopping) {
      try {
        const spec = await this.#options.prepare();
        if (this.#isStopping) break;
        this.#sandbox = await Sandbox.start(spec);
        // The end was asked for while there was nothing to end yet.
        if (this.#isStopping) this.#terminate(this.#options.graceMs);
        return this.#sandbox;
      } catch (error) {
        const { name, message } = error as Error;
        tell(`container ${this.#options.container.name}: ${message}`);
        const reason = name === "MissingSourceError" ? "CreateContainerConfigError" : "CreateContainerError";
        this.#set({ waiting: { reason, message } });
        await this.#pause(prepareAgainMs);
      }
    }
    return undefined;
  }

  async #runOnce(sandbox: Sandbox): Promise<SandboxExit> {
    const startedAt = new Date().toISOString();
    const { readinessProbe, startupProbe } = this.#options.container;
    this.#started = startupProbe === undefined;
    this.#ready = this.#started && readinessProbe === undefined;
    this.#set({ running: { startedAt } });
    const probing = new AbortController();
    this.#probe(sandbox, probing.signal);
    const exit = await sandbox.exited;
    probing.abort();
    this.#sandbox = undefined;
    this.#ready = false;
    this.#started = false;
    const { code, signal } = exit;
    this.#set({
      terminated: {
        exitCode: code,
        ...(signal === undefined ? {} : { signal }),
        reason: code === 0 ? "Completed" : "Error",
        startedAt,
        finishedAt: new Date().toISOString(),
      },
    });
    return exit;
  }

  /** @returns whether the container may be started again */
  async #backOff(ms: number): Promise<boolean> {
    this.#lastState = this.#state;
    this.#set({ waiting: { reason: "CrashLoopBackOff", message: `back-off ${ms} ms` } });
    await this.#pause(ms);
    if (this.#isStopping) {
      this.#set(this.#lastState);
      return false;
    }
    this.#restartCount += 1;
    return true;
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }

  /** Readiness and liveness are probed once the startup probe has succeeded. */
  #probe(sandbox: Sandbox, signal: AbortSignal): void {
    const { startupProbe, readinessProbe, livenessProbe } = this.#options.container;
    const watch = (
      probe: V1Probe | undefined,
      onResult: (healthy: boolean) => void,
      until = signal,
    ): void => {
      if (probe === undefined) return;
      const { container, podIP } = this.#options;
      const execute = sandbox.execute.bind(sandbox);
      void watchProbe(probe, { container, podIP, execute }, onResult, until).catch((error: unknown) =>
        tell(wordsOf(error)),
      );
    };
    const killUnless = (probe: V1Probe | undefined) => (healthy: boolean) => {
      if (healthy) return;
      tell(`container ${this.#options.container.name}: a probe failed, restarting it`);
      const own = probe?.terminationGracePeriodSeconds;
      this.#terminate(own === undefined ? this.#options.graceMs : own * 1_000);
    };
    const begin = (): void => {
      watch(readinessProbe, (healthy) => this.#setHealth({ ready: healthy }));
      watch(livenessProbe, killUnless(livenessProbe));
    };
    if (startupProbe === undefined) {
      begin();
      return;
    }
    const starting = new AbortController();
    const onStartup = (healthy: boolean): void => {
      if (!healthy) killUnless(startupProbe)(false);
      else {
        starting.abort();
        this.#setHealth({ started: true, ready: readinessProbe === undefined });
        begin();
      }
    };
    watch(startupProbe, onStartup, AbortSignal.any([signal, starting.signal]));
  }

  #setHealth({ ready, started }: { readonly ready: boolean; readonly started?: boolean }): void {
    this.#ready = ready;
    this.#started = started ?? this.#started;
    this.#options.onChange();
  }

  #set(state: ContainerState): void {
    this.#state = state;
    this.#options.onChange();
  }
}
