import { useValue } from '../observable.ts';
import type { Theme, ThemeChoice } from './theme.ts';

const words: Readonly<Record<Theme, string>> = { auto: 'Auto', dark: 'Dark', light: 'Light' };

export function ThemeButton({ theme }: { readonly theme: ThemeChoice }) {
  const chosen = useValue(theme);
  return (
    <button
      type="button"
      class="small"
      title="Theme"
      aria-label={`Theme: ${words[chosen]}. Change`}
      onClick={() => theme.next()}
    >
      {words[chosen]}
    </button>
  );
}
