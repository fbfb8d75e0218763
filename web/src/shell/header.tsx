// The header: the views, the reference of the API, the caller, and the choice of colours.

import { useEffect, useRef } from 'preact/hooks';
import type { WhoAmI } from '../../../src/server/live/live-event.ts';
import { SafeText } from '../text/safe-text.tsx';
import { Mark } from './marks.tsx';
import { hashOf, type View, viewTitles } from './route.ts';
import type { ThemeChoice } from './theme.ts';
import { ThemeButton } from './theme-button.tsx';

interface HeaderProps {
  readonly who: WhoAmI;
  readonly views: readonly View[];
  readonly current: View;
  readonly theme: ThemeChoice;
  readonly onLeave: () => void;
}

/** While nothing is known; index.html has the same. */
export function BareHeader() {
  return (
    <header class="top">
      <span class="brand">
        <Mark />
        <span class="brand-name">Chairlift</span>
      </span>
    </header>
  );
}

export function Header({ who, views, current, theme, onLeave }: HeaderProps) {
  const stations = useRef<HTMLUListElement>(null);
  // On a narrow screen the list scrolls.
  useEffect(() => {
    const here = stations.current?.querySelector('[aria-current="page"]');
    here?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [current]);
  return (
    <header class="top">
      <a class="brand" href={hashOf({ view: current })}>
        <Mark />
        <span class="brand-name">Chairlift</span>
        <span class="brand-version">{who.version}</span>
      </a>
      <nav aria-label="Views">
        <ul ref={stations} class="stations">
          {views.map((view) => (
            <li key={view}>
              <a href={hashOf({ view })} aria-current={view === current ? 'page' : undefined}>
                {viewTitles[view]}
              </a>
            </li>
          ))}
          <li>
            <a href="docs">API</a>
          </li>
        </ul>
      </nav>
      <div class="top-end">
        <span class="who">
          {who.anonymous ? 'no key' : <SafeText text={who.name ?? 'key'} most={24} />}
          {who.admin && <span class="badge">admin</span>}
        </span>
        <button type="button" class="small" onClick={onLeave}>
          {who.anonymous ? 'Sign in' : 'Sign out'}
        </button>
        <ThemeButton theme={theme} />
      </div>
    </header>
  );
}
