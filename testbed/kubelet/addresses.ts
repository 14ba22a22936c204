import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Inclusive range of IPv4 addresses. */
export interface AddressRange {
  readonly first: string;
  readonly last: string;
}

/** Reads `10.75.1.128-254` (the last part's end) or `10.75.1.16-10.75.1.63`. @throws Error for anything else */
export function parseRange(text: string): AddressRange {
  const [, first, prefix, last] = /^((?:\d+\.){3}\d+)-((?:\d+\.){3})?(\d+)$/.exec(text) ?? [];
  if (first === undefined || last === undefined) throw new Error(`not a range of addresses: ${text}`);
  const range = { first, last: `${prefix ?? first.slice(0, first.lastIndexOf(".") + 1)}${last}` };
  if (toNumber(range.first) > toNumber(range.last)) throw new Error(`range of addresses ends early: ${text}`);
  return range;
}

export function isInRange(address: string, range: AddressRange): boolean {
  const number = toNumber(address);
  return number >= toNumber(range.first) && number <= toNumber(range.last);
}

/** First address of the range that is not taken. @throws Error when there is none */
export function firstFree(range: AddressRange, taken: ReadonlySet<string>): string {
  for (let number = toNumber(range.first); number <= toNumber(range.last); number++) {
    const address = toAddress(number);
    if (!taken.has(address)) return address;
  }
  throw new Error(`no address is left between ${range.first} and ${range.last}`);
}

function toNumber(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

function toAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join(".");
}

/** Addresses that belong to this node beside its own, on one network device. */
export class DeviceAddresses {
  readonly #device: string;

  constructor(device: string) {
    this.#device = device;
  }

  /** Adds an address, or leaves it where it is there already. */
  async add(address: string): Promise<void> {
    await run("ip", ["address", "replace", `${address}/32`, "dev", this.#device]);
  }

  async remove(address: string): Promise<void> {
    try {
      await run("ip", ["address", "delete", `${address}/32`, "dev", this.#device]);
    } catch (error) {
      // It is gone, then: the device may have been taken away with its namespace.
      if (!/Cannot assign|Cannot find/.test((error as Error).message)) throw error;
    }
  }

  /** Addresses of the device within a range. */
  async list(range: AddressRange): Promise<string[]> {
    const { stdout } = await run("ip", ["-json", "-4", "address", "show", "dev", this.#device]);
    const [device] = JSON.parse(stdout) as { addr_info: { local: string }[] }[];
    return (device?.addr_info ?? []).map(({ local }) => local).filter((address) => isInRange(address, range));
  }
}

/** Gives out the addresses of pods. An address is on the device from {@link take} to {@link release}. */
export class PodAddresses {
  readonly #device: DeviceAddresses;
  readonly #range: AddressRange;
  readonly #taken = new Set<string>();
  /** Where the next search begins: an address is used again as late as possible. */
  #next: string;

  constructor(device: DeviceAddresses, range: AddressRange) {
    this.#device = device;
    this.#range = range;
    this.#next = range.first;
  }

  /** Removes what a killed predecessor has left on the device. */
  async clear(): Promise<void> {
    for (const address of await this.#device.list(this.#range)) await this.#device.remove(address);
  }

  /** @param wanted the address that a pod had before, kept if it is free */
  async take(wanted?: string): Promise<string> {
    const address = this.#choose(wanted);
    this.#taken.add(address);
    await this.#device.add(address);
    return address;
  }

  async release(address: string): Promise<void> {
    await this.#device.remove(address);
    this.#taken.delete(address);
  }

  #choose(wanted: string | undefined): string {
    if (wanted !== undefined && isInRange(wanted, this.#range) && !this.#taken.has(wanted)) return wanted;
    let address: string;
    try {
      address = firstFree({ first: this.#next, last: this.#range.last }, this.#taken);
    } catch {
      address = firstFree(this.#range, this.#taken);
    }
    const following = toAddress(toNumber(address) + 1);
    this.#next = isInRange(following, this.#range) ? following : this.#range.first;
    return address;
  }
}
