// Views that are loaded after the page: when they are opened, or before, once the page has nothing else to do.

import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Problem } from './problem.tsx';

const TRY_AGAIN_MS = 2000;

type Load<Props> = () => Promise<ComponentType<Props>>;

/** A failed load is tried again, since the server may be away. */
export function onDemand<Props extends object>(load: Load<Props>): ComponentType<Props> & { load(): void } {
  let loaded: ComponentType<Props> | undefined;
  const ask = async () => {
    loaded ??= await load();
  };
  function OnDemand(props: Props) {
    const [problem, setProblem] = useState<string>();
    const [, redraw] = useState(loaded !== undefined);
    useEffect(() => {
      let gone = false;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const attempt = async () => {
        try {
          await ask();
          if (!gone) redraw(true);
        } catch {
          if (gone) return;
          setProblem('this part of the page could not be loaded: the server does not answer');
          timer = setTimeout(attempt, TRY_AGAIN_MS);
        }
      };
      if (loaded === undefined) void attempt();
      return () => {
        gone = true;
        clearTimeout(timer);
      };
    }, []);
    if (loaded !== undefined) {
      const View = loaded;
      return <View {...props} />;
    }
    return (
      <>
        <Problem text={problem} />
        {problem !== undefined && (
          <p>
            <button type="button" onClick={() => location.reload()}>
              Load the page again
            </button>
          </p>
        )}
      </>
    );
  }
  return Object.assign(OnDemand, { load: () => void ask().catch(() => {}) });
}

/** So that they are there in an outage, too. */
export function loadWhenIdle(views: readonly { load(): void }[]): void {
  const load = () => {
    for (const view of views) view.load();
  };
  // Safari has no requestIdleCallback.
  if ('requestIdleCallback' in window) requestIdleCallback(load, { timeout: 10_000 });
  else setTimeout(load, 2000);
}
