"""The audit that precedes signing: copies, membership, fidelity and what can be refused at once, as a report and a page."""

from fednode.learning.audit.examination import Exhibit, examine
from fednode.learning.audit.experts import classifier_report, expert_membership
from fednode.learning.audit.page import write_page

__all__ = ["Exhibit", "classifier_report", "examine", "expert_membership", "write_page"]
