import type { WriteStream } from "node:tty";
import { duration } from "../../cli/view/format.ts";
import { span } from "../../cli/view/line.ts";
import type { Line } from "../../cli/view/line.ts";
import { openScreen } from "../../cli/view/screen.ts";
import type { Screen } from "../../cli/view/screen.ts";

const repaintEveryMs = 200;

interface Step {
  readonly title: string;
  readonly startedAt: number;
  endedAt?: number;
  detail?: string;
  failed?: boolean;
}

/** What is done before and after a move, step by step: painted over on a terminal, line by line elsewhere. */
export class Steps {
  readonly #out: WriteStream;
  readonly #screen: Screen | undefined;
  readonly #steps: Step[] = [];
  readonly #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param signal ends the showing, not what is done */
  constructor(out: WriteStream, signal: AbortSignal) {
    this.#out = out;
    signal.addEventListener("abort", () => this.close(), { once: true });
    if (!isTerminal(out)) return;
    this.#screen = openScreen(out);
    this.#timer = setInterval(() => this.#paint(), repaintEveryMs);
    this.#timer.unref();
  }

  /** @param run may tell how far it is */
  async step<T>(title: string, run: (tell: (detail: string) => void) => Promise<T>): Promise<T> {
    const step: Step = { title, startedAt: performance.now() };
    this.#steps.push(step);
    this.#say(`${title} ...`);
    try {
      return await run((detail) => {
        if (detail === step.detail) return;
        step.detail = detail;
        this.#say(`  ${detail}`);
      });
    } catch (error) {
      step.failed = true;
      throw error;
    } finally {
      step.endedAt = performance.now();
      this.#say(`${title}: ${step.failed === true ? "failed after " : ""}${tookOf(step)}`);
      this.#paint();
    }
  }

  /** Leaves what is there and lets others write below it. */
  close(): void {
    if (this.#isClosed) return;
    clearInterval(this.#timer);
    this.#paint();
    this.#isClosed = true;
    this.#screen?.close();
  }

  #say(line: string): void {
    if (this.#screen === undefined && !this.#isClosed) this.#out.write(`${line}\n`);
  }

  #paint(): void {
    if (!this.#isClosed) this.#screen?.draw(this.#steps.map(lineOf));
  }
}

/** One that can move its cursor. */
export function isTerminal(out: WriteStream): boolean {
  return out.isTTY && process.env["TERM"] !== "dumb";
}

function lineOf(step: Step): Line {
  const { title, endedAt, failed, detail } = step;
  const took = span(`  ${tookOf(step)}`, "faint");
  if (failed === true) return [span("✘ ", "bad"), span(title), took];
  if (endedAt !== undefined) return [span("✔ ", "good"), span(title), took];
  return [span("▶ ", "live"), span(title, "strong"), took, span(`  ${detail ?? ""}`)];
}

function tookOf({ startedAt, endedAt }: Step): string {
  return duration((endedAt ?? performance.now()) - startedAt);
}
