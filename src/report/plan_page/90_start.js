plansSection();
searchSection();
stagesSection();
planMemorySection();
section("notes", "Notes", null).append(el("ul", {}, [...new Set(plans.flatMap(p => p.not_modelled))].map(note => el("li", {}, note))), el("p", { class: "note" }, `Predicted by foretrace ${data.version} from ${data.file}. Times have bands from the 10th to the 90th percentile.`));
document.documentElement.dataset.answer = String(Math.round(performance.now()));
