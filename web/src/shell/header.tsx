// The header: the views, the caller, and the choice of colours.

import type { WhoAmI } from '../../../src/server/live/live-event.ts';
import { useValue } from '../observable.ts';
import { SafeText } from '../text/safe-text.tsx';
import { Mark } from './marks.tsx';
import { hashOf, type View, viewTitles } from './route.ts';
import type { Theme, ThemeChoice } from './theme.ts';

interface HeaderProps {
  readonly who: WhoAmI;
  readonly views: readonly View[];
  readonly current: View;
  readonly theme: ThemeChoice;
  readonly onLeave: () => void;
}

const themeWords: Readonly<Record<Theme, string>> = { auto: 'Auto', dark: 'Dark', light: 'Light' };

export function Header({ who, views, current, theme, onLeave }: HeaderProps) {
  const chosen = useValue(theme);
  return (
    <header class="top">
      <a class="brand" href={hashOf({ view: current })}>
        <Mark />
        <span class="brand-name">Chairlift</span>
        <span class="brand-version">{who.version}</span>
      </a>
      <nav aria-label="Views">
        <ul class="stations">
          {views.map((view) => (
            <li key={view}>
              <a href={hashOf({ view })} aria-current={view === current ? 'page' : undefined}>
                {viewTitles[view]}
              </a>
            </li>
          ))}
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
        <button
          type="button"
          class="small"
          title="Theme"
          aria-label={`Theme: ${themeWords[chosen]}. Change`}
          onClick={() => theme.next()}
        >
          {themeWords[chosen]}
        </button>
      </div>
    </header>
  );
}
