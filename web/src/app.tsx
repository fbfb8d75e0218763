// The page: asks who the caller is, and for a key where one is needed.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { WhoAmI } from '../../src/server/live/live-event.ts';
import { KeyForm } from './access/key-form.tsx';
import { forgetKey, type Refusal, Server, storedKey, storeKey, wordsFor } from './access/server.ts';
import { Inside } from './inside.tsx';
import { SafeText } from './text/safe-text.tsx';

type Access =
  | { readonly state: 'asking' }
  | { readonly state: 'locked'; readonly problem?: string; readonly optional?: boolean }
  | { readonly state: 'away'; readonly problem: string }
  | { readonly state: 'open'; readonly who: WhoAmI };

const ASK_AGAIN_MS = 1000;

export function App() {
  const [key, setKey] = useState(storedKey);
  const [access, setAccess] = useState<Access>({ state: 'asking' });
  const latestKey = useRef(key);
  latestKey.current = key;
  const server = useMemo(() => {
    const onUnauthorized = ({ message }: Refusal) => {
      // The request was made with the key before.
      if (latestKey.current !== key) return;
      forgetKey();
      setAccess(key === undefined ? { state: 'locked' } : { state: 'locked', problem: message });
    };
    return new Server(key, onUnauthorized);
  }, [key]);

  const waiting = access.state === 'asking' || access.state === 'away';
  useEffect(() => {
    if (!waiting) return;
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      try {
        const who = await server.json<WhoAmI>('whoami');
        if (gone) return;
        // Only a key that the server accepts is stored.
        if (key !== undefined) storeKey(key);
        setAccess({ state: 'open', who });
      } catch (error) {
        if (gone || (error as Refusal).status === 401) return;
        setAccess({ state: 'away', problem: wordsFor(error) });
        timer = setTimeout(ask, ASK_AGAIN_MS);
      }
    };
    void ask();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [waiting, server, key]);

  const enter = (given: string | undefined) => {
    forgetKey();
    setKey(given);
    setAccess({ state: 'asking' });
  };
  /** Without leaving the view: nothing on the page is loaded again. */
  const takeOn = async (given: string) => {
    storeKey(given);
    latestKey.current = given;
    setKey(given);
    const who = await new Server(given, () => {}).json<WhoAmI>('whoami');
    setAccess({ state: 'open', who });
  };
  switch (access.state) {
    case 'asking':
      return <main class="gate" aria-busy="true" />;
    case 'away':
      return (
        <main class="gate">
          <p role="status">
            <SafeText text={access.problem} />; asking again…
          </p>
        </main>
      );
    case 'locked':
      return (
        <KeyForm
          problem={access.problem}
          onKey={enter}
          onCancel={access.optional ? () => enter(undefined) : undefined}
        />
      );
    case 'open':
      return (
        <Inside
          server={server}
          who={access.who}
          onKey={(given) => void takeOn(given)}
          onLeave={() => {
            forgetKey();
            setKey(undefined);
            setAccess({ state: 'locked', optional: !access.who.keysNeeded });
          }}
        />
      );
  }
}
