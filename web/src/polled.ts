// What a server says, asked again and again while somebody looks.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Server, wordsFor } from './access/server.ts';

export interface Polled<Answer> {
  readonly answer?: Answer;
  readonly problem?: string;
  /** Asks at once. */
  readonly refresh: () => void;
}

export function usePolled<Answer>(server: Server, path: string, everyMs?: number): Polled<Answer> {
  const [known, setKnown] = useState<{ answer?: Answer; problem?: string }>({});
  const asking = useRef<AbortController | undefined>(undefined);
  const ask = useCallback(async () => {
    asking.current?.abort();
    const leave = new AbortController();
    asking.current = leave;
    const { signal } = leave;
    try {
      setKnown({ answer: await server.json<Answer>(path, { signal }) });
    } catch (error) {
      // What was known stays to be seen.
      if (!signal.aborted)
        setKnown(({ answer }) => ({ ...(answer && { answer }), problem: wordsFor(error) }));
    }
  }, [server, path]);
  useEffect(() => {
    void ask();
    const timer = everyMs === undefined ? undefined : setInterval(ask, everyMs);
    return () => {
      clearInterval(timer);
      asking.current?.abort();
    };
  }, [ask, everyMs]);
  return { ...known, refresh: () => void ask() };
}
