// What a service manager does with a socket: it opens it, holds it while no server runs, and hands it on to each that it starts.

import { type ChildProcess, spawn } from 'node:child_process';

/** Node's own, which has an address and takes no connections: `net` alone cannot open a socket without taking what comes. */
interface Handle {
  readonly fd: number;
  bind(address: string, port?: number): number;
  getsockname?(out: { port?: number }): number;
  close(): void;
}

interface Binding {
  readonly TCP: new (kind: number) => Handle;
  readonly Pipe: new (kind: number) => Handle;
  readonly constants: { readonly SERVER: number };
}

const bindingOf = (name: 'tcp_wrap' | 'pipe_wrap') =>
  (process as unknown as { binding(name: string): Binding }).binding(name);

export class SocketHolder {
  readonly #sockets: { readonly handle: Handle; readonly name: string }[] = [];

  /** On a free port of this machine, which it gives. */
  open(name: string): number {
    const { TCP, constants } = bindingOf('tcp_wrap');
    const handle = new TCP(constants.SERVER);
    const out: { port?: number } = {};
    if (handle.bind('127.0.0.1', 0) !== 0 || handle.getsockname?.(out) !== 0)
      throw new Error('no port is free');
    this.#sockets.push({ handle, name });
    return out.port ?? 0;
  }

  openFile(name: string, path: string): void {
    const { Pipe, constants } = bindingOf('pipe_wrap');
    const handle = new Pipe(constants.SERVER);
    if (handle.bind(path) !== 0) throw new Error(`${path} cannot be opened`);
    this.#sockets.push({ handle, name });
  }

  /** The shell puts its own process number where the protocol wants that of the server. */
  launch(
    command: readonly string[],
    options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  ): ChildProcess {
    const names = this.#sockets.map(({ name }) => name).join(':');
    const variables = `LISTEN_FDS=${this.#sockets.length} LISTEN_FDNAMES=${names} LISTEN_PID=$$`;
    return spawn('/bin/sh', ['-c', `${variables} exec "$0" "$@"`, ...command], {
      ...options,
      stdio: ['ignore', 'pipe', 'pipe', ...this.#sockets.map(({ handle }) => handle.fd)],
    });
  }

  close(): void {
    for (const { handle } of this.#sockets.splice(0)) handle.close();
  }
}
