"""CWL documents of tests: their tools run the toy payload."""

from __future__ import annotations

HEAD = """
cwlVersion: v1.2
class: Workflow
$namespaces: {wms2: "https://wms2.example.org/cwl#"}
requirements:
  ScatterFeatureRequirement: {}
  StepInputExpressionRequirement: {}
  MultipleInputFeatureRequirement: {}
"""


def tool(
    mode: str = "map",
    *,
    more_inputs: str = "",
    facts: str = "",
    hint: str = "",
    data: str = "Directory",
    request: str = "",
) -> str:
    """Return an Operation with one input and one output dataset."""
    payload = "{kind: merge, merge: {tool: events}}" if mode == "merge" else "{kind: toy}"
    splitting = "" if mode == "merge" else "splitting: {algo: FileBased, files_per_job: 2}, "
    return f"""
      class: Operation
      inputs: {{data: {data}{more_inputs}}}
      outputs: {{out: Directory{facts}}}
      hints:
        wms2:Step: {{mode: {mode}, tier: AOD, {splitting}{hint}
          request: {{payload_config: {payload}{request}}}}}
"""  # fmt: skip


LINEAR = f"""{HEAD}
inputs: {{data: Directory}}
steps:
  skim:
    in: {{data: data}}
    out: [out]
    run: {tool()}
  slim:
    in: {{data: skim/out}}
    out: [out]
    run: {tool()}
  join:
    in: {{data: slim/out}}
    out: [out]
    run: {tool("merge")}
outputs: {{result: {{type: Directory, outputSource: join/out}}}}
"""

SCATTER = f"""{HEAD}
inputs:
  data: Directory
  runs: {{type: "int[]", default: [1, 2, 3]}}
steps:
  skim:
    scatter: run
    in: {{data: data, run: runs}}
    out: [out, events]
    run: {tool(more_inputs=", run: int", facts=", events: long",
               request=", splitting_params: {run_whitelist: [$(inputs.run)]}")}
  join:
    in: {{data: skim/out}}
    out: [out]
    run: {tool("merge", data='"Directory[]"')}
outputs:
  result: {{type: Directory, outputSource: join/out}}
  events: {{type: "long[]", outputSource: skim/events}}
"""  # fmt: skip

WHEN = f"""{HEAD}
inputs:
  data: Directory
  least: {{type: long, default: 10}}
steps:
  skim:
    in: {{data: data}}
    out: [out, events]
    run: {tool(facts=", events: long")}
  extra:
    in: {{data: skim/out, events: skim/events, least: least}}
    when: $(inputs.events >= inputs.least)
    out: [out]
    run: {tool(more_inputs=", events: long, least: long")}
outputs:
  result:
    type: Directory
    outputSource: [extra/out, skim/out]
    pickValue: first_non_null
"""

DIAMOND = f"""{HEAD}
inputs: {{data: Directory}}
steps:
  skim:
    in: {{data: data}}
    out: [out]
    run: {tool()}
  left:
    in: {{data: skim/out}}
    out: [out]
    run: {tool()}
  right:
    in: {{data: skim/out}}
    out: [out]
    run: {tool()}
outputs:
  left: {{type: Directory, outputSource: left/out}}
  right: {{type: Directory, outputSource: right/out}}
"""
