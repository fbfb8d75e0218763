// The page: asks who the caller is, and for a key where one is needed.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { WhoAmI } from '../../src/server/live/live-event.ts';
import { KeyForm } from './access/key-form.tsx';
import { forgetKey, type Refusal, Server, storedKey, storeKey, wordsFor } from './access/server.ts';
import { Inside } from './inside.tsx';
import { BareHeader } from './shell/header.tsx';
import { SafeText } from './text/safe-text.tsx';

type Access =
  | { readonly state: 'asking' }
  | { readonly state: 'locked'; readonly problem?: string; readonly optional?: boolean }
  | { readonly state: 'away'; readonly problem: string }
  | { readonly state: 'open'; readonly who: WhoAmI };

const ASK_AGAIN_MS = 1000;

export function App() {
  const [access, setAccess] = useState<Access>({ state: 'asking' });
  const latest = useRef<Server>(undefined);
  const remembers = useRef(false);
  const serverWith = (key: string | undefined) =>
    new Server(key, ({ message }, asked) => {
      // The request was made with the key before.
      if (latest.current !== asked) return;
      forgetKey();
      setAccess(asked.key === undefined ? { state: 'locked' } : { state: 'locked', problem: message });
    });
  const [server, setServer] = useState(() => serverWith(storedKey()));
  latest.current = server;

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
        if (server.key !== undefined) storeKey(server.key, remembers.current);
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
  }, [waiting, server]);

  const enter = (given: string | undefined, remember: boolean) => {
    forgetKey();
    remembers.current = remember;
    setServer(serverWith(given));
    setAccess({ state: 'asking' });
  };
  /** The server has this key already: the view stays, and nothing on the page is loaded again. */
  const goOnWithFirstKey = async (key: string) => {
    storeKey(key);
    setAccess({ state: 'open', who: await server.json<WhoAmI>('whoami') });
  };
  switch (access.state) {
    case 'asking':
      return (
        <>
          <BareHeader />
          <main class="gate" aria-busy="true" />
        </>
      );
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
          onCancel={access.optional ? () => enter(undefined, false) : undefined}
        />
      );
    case 'open':
      return (
        <Inside
          server={server}
          who={access.who}
          onFirstKey={(key) => void goOnWithFirstKey(key)}
          onLeave={() => {
            forgetKey();
            setServer(serverWith(undefined));
            setAccess({ state: 'locked', optional: !access.who.keysNeeded });
          }}
        />
      );
  }
}
