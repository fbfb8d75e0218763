// Headers of pages: browsers may load nothing from elsewhere, and may show the page inside no other.

export const pageHeaders = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
} as const;

/** For a page whose scripts and styles are files. */
export const filesPolicy = policy({
  'script-src': "'self'",
  'style-src': "'self'",
  'img-src': "'self' data:",
  'connect-src': "'self'",
  'font-src': "'self'",
});

/** For a page whose scripts and styles are inline. */
export const inlinePolicy = policy({
  'script-src': "'unsafe-inline'",
  'style-src': "'unsafe-inline'",
  'connect-src': "'self'",
});

function policy(allowed: Readonly<Record<string, string>>): string {
  const rules = {
    'default-src': "'none'",
    ...allowed,
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
  };
  return Object.entries(rules)
    .map(([name, value]) => `${name} ${value}`)
    .join('; ');
}
