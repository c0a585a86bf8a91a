"""Operations of the analysis tools."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, BeforeValidator, Field, with_config
from typing_extensions import TypedDict

from memories.contract.fields import FORBID, Id, MemoryIds, OneOf, ResultLimit, Text, validation_error
from memories.contract.operations import Operation
from memories.contract.schemas import ALLOWED
from memories.operations import Metadata

MAX_ID = 200
MAX_FIELDS = 100
MAX_PARENTS = 25
FINDINGS_AT_ONCE = 25
MAX_FINDING = 4_000
MAX_CATEGORY = 120
PER_PAGE = 50
METRICS = ("count", "sum", "avg", "min", "max", "percentile")
ACTIONS = ("update", "delete")
FORMATS = ("csv", "jsonl")

AnalysisId = Annotated[str, Text(1, MAX_ID)]
Session = Annotated[AnalysisId, Field(description="The session's key, of your choice.")]
Names = Annotated[list[Annotated[str, Text(1, 200)]], Field(max_length=MAX_FIELDS)]
Conditions = Annotated[
    dict[str, Any],
    Field(
        description="Which records: {field: value} exactly, or {field: {$gt, $gte, $lt, $lte, $eq, $ne, $in, $nin, "
        "$exists, $contains, $not: …}}; $and, $or, $not join conditions."
    ),
]
Matching = Annotated[dict[str, Any], Field(description="Which records, as in analysis_query.")]
User = Annotated[str, Field(description="For service accounts: for whom.")]
Model = Annotated[str, Field(description="Needed when the analysis holds several.")]


def _fits(seed: int) -> int:
    if not -(2**63) <= seed < 2**63:
        raise validation_error("is out of range", "a 64-bit whole number")
    return seed


PageSize = Annotated[int, Field(json_schema_extra={"minimum": 1})]  # the maximum is the model's per_page_max
FindingText = Annotated[str, Text(1, MAX_FINDING)]
FindingCategory = Annotated[str, Text(0, MAX_CATEGORY)]
TopK = Annotated[int, Field(ge=1, le=200)]
TopN = Annotated[int, Field(ge=1, le=200)]
RowLimit = Annotated[int, Field(ge=1, le=200)]
SampleSize = Annotated[int, Field(ge=1, le=50)]
Seed = Annotated[int, AfterValidator(_fits)]


class IngestRecords(Operation):
    """Download records of a model"""

    analysis_id: Session
    model: str = Field(
        min_length=1,
        description="What to download.",
        json_schema_extra={ALLOWED: "a model, or parent_model with child_resource"},
    )
    filters: dict[str, Any] | None = Field(None, description="The model's own search filters.")
    page: Annotated[int, Field(ge=1, le=1_000_000)] = Field(1, description="One page, unless ingest_all.")
    per_page: PageSize = Field(PER_PAGE, description="Records a page.")
    fields: Names = Field([], description="Only these; ids are always kept.")
    ingest_all: bool = Field(False, description="All pages, up to 50 a call.")
    resume: bool = Field(False, description="With ingest_all: continue where the last call ended.")
    user_id: User = ""


class IngestChildren(Operation):
    """Download the children of records"""

    analysis_id: Session
    parent_model: str = Field(description="Whose children to fetch.")
    child_resource: str = Field("", description="Which children.")
    parent_ids: (
        Annotated[list[Annotated[str, Text(1, 500), BeforeValidator(str)]], Field(max_length=MAX_PARENTS)] | None
    ) = Field(None, description="Without: all ingested parents.")
    fields: Names = Field([], description="Only these; ids are always kept.")
    user_id: User = ""


@with_config(FORBID)
class FindingInput(TypedDict):
    finding: FindingText
    category: NotRequired[FindingCategory]
    metadata: NotRequired[Metadata]


class StoreFindings(Operation):
    """Keep findings"""

    analysis_id: AnalysisId
    findings: Annotated[list[FindingInput], Field(min_length=1, max_length=FINDINGS_AT_ONCE)]
    persistent: bool = Field(False, description="Keep beyond an hour.")
    memory_ids: MemoryIds = Field([], description="Memories that they are from: erasing one deletes them.")


class Describe(Operation):
    """The data set's fields, types and values"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions | None = None


class SearchFindings(Operation):
    """Findings by meaning"""

    analysis_id: AnalysisId
    model: Model = ""
    query: FindingText = Field(description="What to find.")
    category: FindingCategory = Field("", description="Only findings of this category.")
    top_k: TopK = 50
    threshold: float = Field(0.5, description="Least similarity, 0 to 1, where no word matches.")


@with_config(FORBID)
class Metric(TypedDict):
    op: Annotated[str, OneOf(METRICS)]
    field: NotRequired[str]
    p: NotRequired[float]


class Aggregate(Operation):
    """Counts and metrics per group"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions | None = None
    group_by: str | dict[str, Any] | list[str | dict[str, Any]] = Field(
        description='A field, {field, bucket: "month"} for dates, or a list of at most 3 of these.'
    )
    metrics: Annotated[list[Metric], Field(max_length=5)] = []
    top_n: TopN = Field(20, description="Groups shown; the rest is counted.")


class Filter(Operation):
    """Matching rows, page by page"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions = Field(json_schema_extra={ALLOWED: "conditions; mode sample works without them"})
    limit: RowLimit = 20
    sort: str = Field("", description="A field; -field descends.")
    fields: Names = Field([], description="Only these fields.")
    cursor: str = Field("", description="Where the last page ended.")


class Sample(Operation):
    """Rows drawn at random"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions | None = None
    sample_size: SampleSize = 5
    stratify_by: str | list[str] = Field([], description="Every value is represented.")
    proximity: dict[str, Any] | None = Field(None, description='{field, origin, window: "7 days", bucket?: "1 day"}.')
    seed: Seed | None = Field(None, description="The same seed draws the same rows.")


class RunAction(Operation):
    """Update or delete the matching records"""

    analysis_id: AnalysisId
    model: str = Field(description="A writable model of the analysis.")
    action: Annotated[str, OneOf(ACTIONS)]
    where: Matching | None = None
    attributes: dict[str, Any] | None = Field(None, description="For update: what to set on every record.")
    dry_run: bool = Field(False, description="Show scope and snapshot age, change nothing.")
    confirm: str = Field("", description="The dry run's token; needed for more than 50 records.")
    revalidate: bool = Field(False, description="Read each record first, and skip those that changed since.")
    user_id: User = ""


class ResumeAction(Operation):
    """Resume an interrupted action"""

    action_id: Annotated[Id, Field(description="An interrupted action to resume.")]


class Clear(Operation):
    """Delete an analysis"""

    analysis_id: AnalysisId


class Export(Operation):
    """Make the matching records a file"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Matching | None = None
    format: Annotated[str, OneOf(FORMATS)] = "csv"
    fields: Names = Field([], description="Only these columns.")


class QuerySql(Operation):
    """Ask a data warehouse in SQL"""

    sql: Annotated[str, Text(1, 20_000)] = Field(
        description="One SELECT, EXPLAIN, DESCRIBE, SUMMARIZE, PIVOT or SHOW TABLES, in the source's dialect."
    )
    source: Annotated[str, Text(0, 60)] = Field("", description="Which warehouse, where there are several.")
    limit: Annotated[int, ResultLimit(10_000)] = Field(100, description="Most rows.")
