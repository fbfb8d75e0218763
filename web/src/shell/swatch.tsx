// The colour that stands for something, beside its name.

export function Swatch({ colour }: { readonly colour: string }) {
  return (
    <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
      <rect width="10" height="10" rx="2" fill={`var(${colour})`} />
    </svg>
  );
}
