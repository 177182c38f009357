"""The paper's tables and claims compared with this installation's, and its faults one at a time.

The views of page Paper, over rows of :mod:`midchart.core.experiments.replication.steps` and
:mod:`midchart.core.experiments.replication.paper`.
"""

from midchart.core.runs.declared import BY_PATIENT, Ends, Measure, View

CHANGE = Measure(
    "difference", "change, points", "points", "On the same questions; McNemar's p.",
    (Ends("low", "high", "by patient"),), p="p",
)  # fmt: skip
PRINTED = (Ends("low", "high", "as printed, or by patient"),)
VIEWS = (
    View("claims", "Which claims hold?", "claims",
         (Measure("value", "effect, points", "points", "AUROC counts as a share.", PRINTED),),
         "dumbbell", rows=("group", "claim"), across="of", zero=True,
         about="Differences with 95 % intervals, each of a single comparison and not adjusted for "
         "their number. Holds: the interval is on the claimed side of 0, or for a claim of "
         "equality within its margin; does not hold: on the other side, or outside the margin; "
         "else not shown. A gap of the curve is judged by its p, a range by the margin. With both "
         "protocols, the less favourable counts. A synthetic cohort with a small reader cannot "
         "test claims about MedAlign read by Qwen2.5-7B-Instruct or about EHRSHOT; it shows "
         "whether the claimed direction appears on its text."),
    View("waterfall", "What does each fault cost?", "waterfall",
         (Measure("accuracy", "% correct", intervals=(BY_PATIENT,)), CHANGE), "waterfall",
         rows=("step",), more=("unparsed", "change", "texts_changed", "effect"), opens=("run",),
         about="From top to bottom: the published protocol, then one fault fewer in each row. "
         "Bar: the change from the row above. The effect of a fault depends on the faults still "
         "on; view 'alone' has each by itself."),
    View("alone", "And each fault alone?", "alone", (CHANGE,), "forest", rows=("fault",),
         more=("texts_changed", "right_here", "right_there", "effect"), zero=True, opens=("run",),
         about="Each row: the corrected protocol with this one fault turned on, against the "
         "corrected run on the same questions. A fault that changed no prompt, answer or judged "
         "text has no measurable effect on this arm, cohort or reader; this does not show that it "
         "is harmless."),
    View("tables", "How far are its tables?", "figures",
         (Measure("value", "value", intervals=PRINTED),), "dumbbell", rows=("label",), across="of"),
    View("findings", "What contradicts the paper?", "findings",
         about="Figures of the paper's own run; none was measured by Midchart. Those under "
         "'published' are cells of the paper's tables in data/published; those under 'stated' "
         "rest on the released outcomes, which are not shipped."),
)  # fmt: skip
