import { InvalidArgumentError } from "commander";

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Reads `10.75.1.130:1194`, as an option parser for commander. */
export function parseHostPort(text: string): HostPort {
  const [host, port, ...rest] = text.split(":");
  const number = Number(port);
  if (!host || rest.length > 0 || !Number.isInteger(number) || number < 1 || number > 65_535) {
    throw new InvalidArgumentError("Wanted is an address like 10.75.1.130:1194.");
  }
  return { host, port: number };
}
