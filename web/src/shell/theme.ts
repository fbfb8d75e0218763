// Dark, light, or as the system prefers; and the sizes and colours of the style sheet, for canvases.

import { useEffect, useState } from 'preact/hooks';
import { Observable } from '../observable.ts';

export type Theme = 'auto' | 'dark' | 'light';

const NAME = 'chairlift.theme';
const themes: readonly Theme[] = ['auto', 'light', 'dark'];

export class ThemeChoice extends Observable<Theme> {
  constructor() {
    const kept = localStorage.getItem(NAME);
    super(themes.find((theme) => theme === kept) ?? 'auto');
    document.documentElement.dataset.theme = this.value;
  }

  next(): void {
    const theme = themes[(themes.indexOf(this.value) + 1) % themes.length] as Theme;
    localStorage.setItem(NAME, theme);
    document.documentElement.dataset.theme = theme;
    this.set(theme);
  }
}

export type Rgb = readonly [red: number, green: number, blue: number];

/** The present value of a custom property. */
export function colourOf(property: string): Rgb {
  const probe = document.createElement('span');
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const [red = 0, green = 0, blue = 0] = (getComputedStyle(probe).color.match(/[\d.]+/g) ?? []).map(Number);
  probe.remove();
  return [red, green, blue];
}

export function cssColour([red, green, blue]: Rgb, opacity = 1): string {
  return `rgb(${red} ${green} ${blue} / ${opacity})`;
}

export function useSystemDark(): boolean {
  const [dark, setDark] = useState(() => matchMedia('(prefers-color-scheme: dark)').matches);
  useEffect(() => {
    const query = matchMedia('(prefers-color-scheme: dark)');
    const update = () => setDark(query.matches);
    query.addEventListener('change', update);
    return () => query.removeEventListener('change', update);
  }, []);
  return dark;
}

export function pixelsOf(rem: number): number {
  return Math.round(rem * Number.parseFloat(getComputedStyle(document.documentElement).fontSize));
}
