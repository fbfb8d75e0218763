// The whole server from within a program.

import { asLibraryError } from './chairlift-error.ts';
import { type GivenConfig, resolvedFrom } from './given-config.ts';

/** Every setting of docs/configuration.md, by its name. */
export type ServeOptions = GivenConfig;

export interface RunningServer {
  /** Where it listens, such as http://127.0.0.1:8000. Empty for a worker of a fleet, which listens nowhere. */
  readonly url: string;
  /** Where /metrics and /admin are, if they have a port of their own. */
  readonly adminUrl: string | undefined;
  /** Refuses new requests, lets running ones end within `shutdownLimit`, closes everything. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Resolves when the default model is loaded and the server listens. */
export async function serve(options: ServeOptions = {}): Promise<RunningServer> {
  try {
    const resolved = resolvedFrom(options);
    // A program that only loads models never loads the HTTP edge and the store.
    const { startService } = await import('./service.ts');
    const service = await startService(resolved);
    let closed: Promise<void> | undefined;
    const close = () => {
      closed ??= service.close();
      return closed;
    };
    const { url, adminUrl } = service;
    return { url, adminUrl, close, [Symbol.asyncDispose]: close };
  } catch (error) {
    throw asLibraryError(error);
  }
}
