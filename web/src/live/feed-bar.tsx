// The state of the feed, its notices, and the button that pauses it.

import { useEffect, useState } from 'preact/hooks';
import { useValue } from '../observable.ts';
import { clock, duration } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { Notice } from './lift-board.ts';
import type { FeedState, LiveFeed } from './live-feed.ts';

interface FeedBarProps {
  readonly feed: LiveFeed;
  readonly notices: readonly Notice[];
}

export function FeedBar({ feed, notices }: FeedBarProps) {
  const state = useValue(feed);
  const [latest] = notices;
  const counts = state.state === 'paused' || state.state === 'lost';
  const nowMs = useSeconds(counts);
  return (
    <section class="feed-bar" aria-label="Feed">
      <span class="lamp" data-lamp={state.state}>
        {wordsFor(state, nowMs)}
      </span>
      <div class="feed-news" role="status">
        {latest && (
          <span>
            <time>{clock(latest.atMs)}</time> <SafeText text={latest.text} />
          </span>
        )}
      </div>
      {notices.length > 1 && (
        <details class="feed-notices">
          <summary>{notices.length} notices</summary>
          <ul>
            {notices.map(({ atMs, text }, at) => (
              <li key={at}>
                <time>{clock(atMs)}</time> <SafeText text={text} />
              </li>
            ))}
          </ul>
        </details>
      )}
      {state.state === 'paused' ? (
        <button type="button" class="primary" onClick={() => feed.resume()}>
          Go on
        </button>
      ) : (
        <button type="button" disabled={state.state === 'refused'} onClick={() => feed.pause()}>
          Pause
        </button>
      )}
    </section>
  );
}

function wordsFor(state: FeedState, nowMs: number): string {
  switch (state.state) {
    case 'connecting':
      return 'Connecting…';
    case 'live':
      return 'Live';
    case 'lost': {
      const leftMs = Math.max(0, state.againMs - nowMs);
      return `Connection lost: ${state.problem}. ${leftMs < 1000 ? 'Trying again…' : `Trying again in ${duration(leftMs)}`}`;
    }
    case 'paused':
      return `Paused for ${duration(Math.max(0, nowMs - state.sinceMs))}`;
    case 'refused':
      return state.problem;
  }
}

function useSeconds(running: boolean): number {
  const [nowMs, setNowMs] = useState(Date.now());
  useEffect(() => {
    if (!running) return;
    setNowMs(Date.now());
    const timer = setInterval(() => setNowMs(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [running]);
  return nowMs;
}
