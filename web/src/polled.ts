// A response of the server, requested again while a component shows it.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Server, wordsFor } from './access/server.ts';

interface Polled<Answer> {
  readonly answer?: Answer;
  readonly problem?: string;
  readonly refresh: () => void;
}

const ASK_AGAIN_MS = 2000;

/**
 * Each request follows the response before it, however slow the link; without `everyMs` it stops at the first, and without a
 * path nothing is requested.
 */
export function usePolled<Answer>(
  server: Server,
  path: string | undefined,
  everyMs?: number,
): Polled<Answer> {
  const [known, setKnown] = useState<{ answer?: Answer; problem?: string }>({});
  const asking = useRef<AbortController | undefined>(undefined);
  const ask = useCallback(async () => {
    asking.current?.abort();
    if (path === undefined) return;
    const leave = new AbortController();
    asking.current = leave;
    const { signal } = leave;
    let nextMs = everyMs;
    try {
      setKnown({ answer: await server.json<Answer>(path, { signal }) });
    } catch (error) {
      if (signal.aborted) return;
      setKnown(({ answer }) => ({ ...(answer && { answer }), problem: wordsFor(error) }));
      nextMs ??= ASK_AGAIN_MS;
    }
    if (signal.aborted || nextMs === undefined) return;
    const timer = setTimeout(ask, nextMs);
    signal.addEventListener('abort', () => clearTimeout(timer));
  }, [server, path, everyMs]);
  useEffect(() => {
    void ask();
    return () => asking.current?.abort();
  }, [ask]);
  return { ...known, refresh: () => void ask() };
}
