/** How long a seed may take for one thing that it was asked for; the activity is then tried again. */
export const failureDeadlineMs = 5 * 60_000;
