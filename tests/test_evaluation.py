"""Measures, against scikit-learn and against cases known by hand."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss, recall_score, roc_auc_score

from fednode.learning.evaluation import calibration_error, confusion, macro_auroc, metrics, product_metrics


def answers(count: int = 300, labels: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    targets = random.integers(0, labels, count)
    scores = random.normal(size=(count, labels)) + 1.2 * np.eye(labels)[targets]
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return probabilities, targets


def test_accuracy_auroc_f1_and_confusion_agree_with_scikit_learn() -> None:
    probabilities, targets = answers()
    found, chosen = metrics(probabilities, targets), probabilities.argmax(1)
    assert found["accuracy"] == pytest.approx(accuracy_score(targets, chosen))
    assert found["macro_auroc"] == pytest.approx(roc_auc_score(targets, probabilities, multi_class="ovr"))
    assert found["f1"] == pytest.approx(f1_score(targets, chosen, average="macro"))
    assert (confusion(probabilities, targets) == confusion_matrix(targets, chosen)).all()


def test_auroc_counts_ties_as_one_half() -> None:
    probabilities, targets = answers()
    coarse = np.round(probabilities, 1)
    areas = [roc_auc_score(targets == label, coarse[:, label]) for label in range(4)]
    assert macro_auroc(coarse, targets) == pytest.approx(np.mean(areas))


def test_labels_without_images_are_left_out_of_auroc_and_f1() -> None:
    probabilities, targets = answers(labels=3)
    wider = np.concatenate([probabilities, np.zeros((len(targets), 1))], axis=1)
    assert metrics(wider, targets) == metrics(probabilities, targets)


def test_images_of_one_label_have_no_auroc() -> None:
    probabilities, _ = answers(20)
    assert metrics(probabilities, np.zeros(20, int))["macro_auroc"] is None


def test_sure_and_right_answers_have_no_calibration_error_and_sure_and_wrong_ones_have_all() -> None:
    sure = np.eye(3)[[0, 1, 2]]
    assert calibration_error(sure, np.array([0, 1, 2])) == 0
    assert calibration_error(sure, np.array([1, 2, 0])) == 1


def test_calibration_error_weighs_the_gap_of_each_bin_by_its_share() -> None:
    # three answers at 0.9 of which two are right, one at 0.6 that is right
    probabilities = np.array([[0.9, 0.1]] * 3 + [[0.6, 0.4]])
    expected = 0.75 * abs(2 / 3 - 0.9) + 0.25 * abs(1 - 0.6)
    assert calibration_error(probabilities, np.array([0, 0, 1, 0])) == pytest.approx(expected)


def test_gaps_of_opposite_sign_in_different_bins_do_not_cancel() -> None:
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4]])
    assert calibration_error(probabilities, np.array([1, 0])) == pytest.approx((0.9 + 0.4) / 2)


def test_a_product_tells_log_loss_and_the_recall_of_each_label() -> None:
    probabilities, targets = answers()
    found, names = product_metrics(probabilities, targets, list("abcd")), list("abcd")
    assert found["log_loss"] == pytest.approx(log_loss(targets, probabilities))
    recalls = recall_score(targets, probabilities.argmax(1), average=None)
    assert [row["recall"] for row in found["labels"]] == pytest.approx(recalls)
    assert [row["images"] for row in found["labels"]] == np.bincount(targets).tolist()
    assert [row["label"] for row in found["labels"]] == names
    assert found["interval"][0] < found["accuracy"] < found["interval"][1]


def test_a_label_without_images_has_no_recall_and_an_impossible_answer_a_finite_loss() -> None:
    found = product_metrics(np.eye(2)[[0, 1]], np.array([0, 0]), ["a", "b"])
    assert found["labels"][1] == {"label": "b", "images": 0, "recall": None, "interval": None}
    assert found["log_loss"] == pytest.approx(12 * np.log(10) / 2)
