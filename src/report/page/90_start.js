changes();
whereTimeGoes();
const loadTimeline = timeline();
elsewhere();
fineprint();
// The timeline stands behind the tables of the time and before memory, wherever its section was made.
document.documentElement.dataset.answer = String(Math.round(performance.now()));
addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(loadTimeline, 0)));
